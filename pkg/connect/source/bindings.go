package source

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

const (
	// Names of sources contain no colon, so a name with a colon can be split again without ambiguity.
	bindingPrefix  = "multicluster-source:"
	viewerPrefix   = "multicluster-source-viewer:"
	identityPrefix = "multicluster-source-identity:"

	kindClusterRole, kindRole = "ClusterRole", "Role"

	// The virtual verbs are for the admission policy, which asks the authorizer. No API server has the resource
	// clusterids.
	verbActAsSource, verbUse = "act-as-source", "use"
)

// rbacOf returns the roles and bindings of a source, except those of a ClusterSource in its namespaces. The key names a
// Source or, without a namespace, a ClusterSource.
//
// The identity of a Source holds in its namespace only. Tenants may write Sources there, and name any user. In the
// whole cluster, that would let them subject others to the policy, and give away the cluster IDs of others.
func (o Options) rbacOf(
	key types.NamespacedName, subjects []rbacv1.Subject, clusterID string, owner metav1.OwnerReference,
) []client.Object {
	owned := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: key.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{owner}}
	}
	identity := owned(identityPrefix + key.Name)
	kind := kindClusterRole
	viewer := metav1.ObjectMeta{Name: viewerName(key)}
	if key.Namespace != "" {
		kind = kindRole
	} else {
		viewer = owned(viewer.Name) // An owner in a namespace cannot own it.
	}
	all := []client.Object{
		grants.RoleWith(identity, identityRules(clusterID)),
		grants.BindingTo(kind, identity.Name, identity, subjects),
		grants.BindingTo(kindClusterRole, o.SummaryViewerClusterRoleName, viewer, subjects),
	}
	if key.Namespace != "" {
		rights := owned(bindingPrefix + key.Name)
		all = append(all, grants.BindingTo(kindClusterRole, o.SourceClusterRoleName, rights, subjects))
	}
	return all
}

// identityRules tell the admission policy who a source is, and which cluster ID is its own. Without a cluster ID the
// source may use any, as in earlier versions.
func identityRules(clusterID string) []rbacv1.PolicyRule {
	groups := []string{v1alpha1.GroupName}
	use := rbacv1.PolicyRule{APIGroups: groups, Resources: []string{"clusterids"}, Verbs: []string{verbUse}}
	if clusterID != "" {
		use.ResourceNames = []string{clusterID}
	}
	return []rbacv1.PolicyRule{
		{APIGroups: groups, Resources: []string{"podchaperons"}, Verbs: []string{verbActAsSource}},
		use,
	}
}

func clusterRoleBinding(name string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func viewerName(key types.NamespacedName) string {
	if key.Namespace == "" {
		return viewerPrefix + key.Name
	}
	return viewerPrefix + key.Namespace + ":" + key.Name
}

// ownerOf returns the Source or ClusterSource of a role or binding, from the name. The namespace of a ClusterSource is
// empty.
func ownerOf(o client.Object) (types.NamespacedName, bool) {
	if name, ok := grants.SourceOf(o); ok {
		return types.NamespacedName{Name: name}, true
	}
	for _, prefix := range []string{bindingPrefix, identityPrefix} {
		if rest, ok := strings.CutPrefix(o.GetName(), prefix); ok {
			return types.NamespacedName{Namespace: o.GetNamespace(), Name: rest}, true
		}
	}
	rest, ok := strings.CutPrefix(o.GetName(), viewerPrefix)
	if namespace, name, namespaced := strings.Cut(rest, ":"); namespaced {
		return types.NamespacedName{Namespace: namespace, Name: name}, ok
	}
	return types.NamespacedName{Name: rest}, ok
}
