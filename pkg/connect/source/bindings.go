package source

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// Names of sources contain no colon, so a name with a colon can be split again without ambiguity.
	bindingPrefix = "multicluster-source:"
	viewerPrefix  = "multicluster-source-viewer:"

	// labelSource marks the objects that this package creates. Its value is empty.
	labelSource = v1alpha1.GroupName + "/source"
)

// identity is the identity of a source cluster in this cluster. At least one of the fields is set.
type identity struct {
	userName       string
	serviceAccount types.NamespacedName
}

func (i identity) hasServiceAccount() bool { return i.serviceAccount.Name != "" }

func (i identity) subjects() []*rbacv1ac.SubjectApplyConfiguration {
	var subjects []*rbacv1ac.SubjectApplyConfiguration
	if i.userName != "" {
		subjects = append(subjects, rbacv1ac.Subject().WithKind(rbacv1.UserKind).
			WithAPIGroup(rbacv1.GroupName).WithName(i.userName))
	}
	if i.hasServiceAccount() {
		subjects = append(subjects, rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).
			WithNamespace(i.serviceAccount.Namespace).WithName(i.serviceAccount.Name))
	}
	return subjects
}

// binding is a desired RoleBinding or ClusterRoleBinding.
type binding struct {
	// object has the kind and the name, for reading and deleting.
	object  client.Object
	role    string
	desired runtime.ApplyConfiguration
}

// bindings returns the bindings that a source needs. The key names a Source or, without a namespace, a ClusterSource.
func (o Options) bindings(key types.NamespacedName, i identity, owner metav1.OwnerReference) []binding {
	viewer := binding{object: clusterRoleBinding(viewerName(key)), role: o.SummaryViewerClusterRoleName}
	rights := binding{role: o.SourceClusterRoleName}
	if key.Namespace == "" {
		rights.object = clusterRoleBinding(bindingPrefix + key.Name)
	} else {
		meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: bindingPrefix + key.Name}
		rights.object = &rbacv1.RoleBinding{ObjectMeta: meta}
	}
	all := []binding{rights, viewer}
	for n := range all {
		all[n].desired = desiredBinding(all[n], i.subjects(), owner, key.Namespace)
	}
	return all
}

// desiredBinding returns the binding to apply. An owner without a namespace may own objects in and out of namespaces.
func desiredBinding(
	b binding, subjects []*rbacv1ac.SubjectApplyConfiguration, owner metav1.OwnerReference, ownerNamespace string,
) runtime.ApplyConfiguration {
	labels := map[string]string{labelSource: ""}
	roleRef := rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(b.role)
	ownerRef := metav1ac.OwnerReference().WithAPIVersion(owner.APIVersion).WithKind(owner.Kind).
		WithName(owner.Name).WithUID(owner.UID)
	name, namespace := b.object.GetName(), b.object.GetNamespace()
	if namespace != "" {
		return rbacv1ac.RoleBinding(name, namespace).WithLabels(labels).WithRoleRef(roleRef).
			WithSubjects(subjects...).WithOwnerReferences(ownerRef)
	}
	config := rbacv1ac.ClusterRoleBinding(name).WithLabels(labels).WithRoleRef(roleRef).WithSubjects(subjects...)
	if ownerNamespace == "" {
		config.WithOwnerReferences(ownerRef)
	}
	return config
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

// ownerOf returns the Source or ClusterSource of a binding, from the binding's name. The namespace of a ClusterSource
// is empty.
func ownerOf(b client.Object) (types.NamespacedName, bool) {
	if rest, ok := strings.CutPrefix(b.GetName(), bindingPrefix); ok {
		return types.NamespacedName{Namespace: b.GetNamespace(), Name: rest}, true
	}
	rest, ok := strings.CutPrefix(b.GetName(), viewerPrefix)
	if namespace, name, namespaced := strings.Cut(rest, ":"); namespaced {
		return types.NamespacedName{Namespace: namespace, Name: name}, ok
	}
	return types.NamespacedName{Name: rest}, ok
}

// roleRef returns the role of an existing binding.
func roleRef(b client.Object) rbacv1.RoleRef {
	switch b := b.(type) {
	case *rbacv1.RoleBinding:
		return b.RoleRef
	case *rbacv1.ClusterRoleBinding:
		return b.RoleRef
	default:
		return rbacv1.RoleRef{}
	}
}
