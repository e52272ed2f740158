package source

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

var both = identity{userName: "spiffe://c1", serviceAccount: types.NamespacedName{Namespace: "admiralty", Name: "c1"}}

func TestBindings(t *testing.T) {
	options := Options{SourceClusterRoleName: "mcs-source", SummaryViewerClusterRoleName: "mcs-viewer"}
	user := rbacv1ac.SubjectApplyConfiguration{
		Kind: ptr.To("User"), APIGroup: ptr.To(rbacv1.GroupName), Name: ptr.To("spiffe://c1"),
	}
	account := rbacv1ac.SubjectApplyConfiguration{
		Kind: ptr.To("ServiceAccount"), Namespace: ptr.To("admiralty"), Name: ptr.To("c1"),
	}

	type binding struct {
		Kind, Namespace, Name, Role string
		Owned                       bool
		Subjects                    []rbacv1ac.SubjectApplyConfiguration
	}
	cases := map[string]struct {
		key      types.NamespacedName
		identity identity
		want     []binding
	}{
		"a ClusterSource owns two ClusterRoleBindings": {
			key: types.NamespacedName{Name: "c1"}, identity: both,
			want: []binding{
				{
					"ClusterRoleBinding", "", "multicluster-source:c1", "mcs-source", true,
					[]rbacv1ac.SubjectApplyConfiguration{user, account},
				},
				{
					"ClusterRoleBinding", "", "multicluster-source-viewer:c1", "mcs-viewer", true,
					[]rbacv1ac.SubjectApplyConfiguration{user, account},
				},
			},
		},
		"a Source owns a RoleBinding and cannot own the ClusterRoleBinding": {
			key: types.NamespacedName{Namespace: "team-a", Name: "c1"}, identity: identity{userName: "spiffe://c1"},
			want: []binding{
				{
					"RoleBinding", "team-a", "multicluster-source:c1", "mcs-source", true,
					[]rbacv1ac.SubjectApplyConfiguration{user},
				},
				{
					"ClusterRoleBinding", "", "multicluster-source-viewer:team-a:c1", "mcs-viewer", false,
					[]rbacv1ac.SubjectApplyConfiguration{user},
				},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []binding
			for _, b := range options.bindings(c.key, c.identity, metav1.OwnerReference{Name: c.key.Name, UID: "1"}) {
				switch d := b.desired.(type) {
				case *rbacv1ac.RoleBindingApplyConfiguration:
					got = append(got, binding{
						*d.Kind, *d.Namespace, *d.Name, *d.RoleRef.Name, len(d.OwnerReferences) > 0, d.Subjects,
					})
				case *rbacv1ac.ClusterRoleBindingApplyConfiguration:
					got = append(got, binding{
						*d.Kind, "", *d.Name, *d.RoleRef.Name, len(d.OwnerReferences) > 0, d.Subjects,
					})
				}
				owner, ok := ownerOf(b.object)
				if !ok || owner != c.key {
					t.Errorf("binding %q is taken for one of %q", b.object.GetName(), owner)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("bindings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnerOfOtherBindings(t *testing.T) {
	for _, name := range []string{"cluster-admin", "multicluster-source", "system:multicluster-source:c1"} {
		if key, ok := ownerOf(clusterRoleBinding(name)); ok {
			t.Errorf("%q is taken for a binding of %q", name, key)
		}
	}
}

func TestReadyCondition(t *testing.T) {
	cases := map[string]struct {
		identity  identity
		namespace string
		problem   error
		want      metav1.Condition
	}{
		"a ClusterSource with a user and a service account": {
			identity: both,
			want: metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
				Message: `user "spiffe://c1" and service account "admiralty/c1" may run pods in every namespace`},
		},
		"a Source with a user": {
			identity: identity{userName: "c1"}, namespace: "team-a",
			want: metav1.Condition{
				Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
				Message: `user "c1" may run pods in namespace "team-a"`,
			},
		},
		"a source with a problem": {
			identity: both, problem: errors.New(`namespaces "admiralty" not found`),
			want: metav1.Condition{
				Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonFailed,
				Message: `namespaces "admiralty" not found`,
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := readyCondition(c.identity, c.namespace, c.problem)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "Type")); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLabelSelectsCreatedObjects(t *testing.T) {
	if !createdHere().Matches(labels.Set{labelSource: ""}) || createdHere().Matches(labels.Set{}) {
		t.Errorf("the selector %q does not select the created objects", createdHere())
	}
}
