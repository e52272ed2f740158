package source

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

var both = grants.Identity{
	UserName: "spiffe://c1", ServiceAccount: types.NamespacedName{Namespace: "admiralty", Name: "c1"},
}

// summarize returns kind, name and role of an object, and whether it is owned.
func summarize(o client.Object) string {
	text := fmt.Sprintf("%T %s", o, client.ObjectKeyFromObject(o))
	switch o := o.(type) {
	case *rbacv1.RoleBinding:
		text += fmt.Sprintf(" to %s %s for %d", o.RoleRef.Kind, o.RoleRef.Name, len(o.Subjects))
	case *rbacv1.ClusterRoleBinding:
		text += fmt.Sprintf(" to %s %s for %d", o.RoleRef.Kind, o.RoleRef.Name, len(o.Subjects))
	}
	return fmt.Sprintf("%s, owned: %t", text, len(o.GetOwnerReferences()) > 0)
}

func TestRBACOfASource(t *testing.T) {
	options := Options{
		SourceClusterRoleName: "mcs-source", SummaryViewerClusterRoleName: "mcs-viewer",
	}
	cases := map[string]struct {
		key      types.NamespacedName
		identity grants.Identity
		want     []string
	}{
		"a ClusterSource has its identity in the whole cluster": {
			key: types.NamespacedName{Name: "c1"}, identity: both,
			want: []string{
				"*v1.ClusterRole /multicluster-source-identity:c1, owned: true",
				"*v1.ClusterRoleBinding /multicluster-source-identity:c1 " +
					"to ClusterRole multicluster-source-identity:c1 for 2, owned: true",
				"*v1.ClusterRoleBinding /multicluster-source-viewer:c1 to ClusterRole mcs-viewer for 2, owned: true",
			},
		},
		"a Source has its identity and rights in its namespace": {
			key:      types.NamespacedName{Namespace: "team-a", Name: "c1"},
			identity: grants.Identity{UserName: "spiffe://c1"},
			want: []string{
				"*v1.Role team-a/multicluster-source-identity:c1, owned: true",
				"*v1.RoleBinding team-a/multicluster-source-identity:c1 " +
					"to Role multicluster-source-identity:c1 for 1, owned: true",
				"*v1.ClusterRoleBinding /multicluster-source-viewer:team-a:c1 " +
					"to ClusterRole mcs-viewer for 1, owned: false",
				"*v1.RoleBinding team-a/multicluster-source:c1 to ClusterRole mcs-source for 1, owned: true",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			owner := metav1.OwnerReference{Name: c.key.Name, UID: "1"}
			for _, o := range options.rbacOf(c.key, c.identity.Subjects(), "", owner) {
				got = append(got, summarize(o))
				if owner, ok := ownerOf(o); !ok || owner != c.key {
					t.Errorf("%q is taken for an object of %q", o.GetName(), owner)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("roles and bindings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheIdentityHasTheClusterIDOfTheSpecOrAny(t *testing.T) {
	for id, want := range map[string][]string{"": nil, "id-of-c1": {"id-of-c1"}} {
		rules := identityRules(id)
		use := rules[len(rules)-1]
		if diff := cmp.Diff(want, use.ResourceNames); diff != "" || use.Verbs[0] != verbUse {
			t.Errorf("cluster ID %q: rule %v, names (-want +got):\n%s", id, use, diff)
		}
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
		identity grants.Identity
		where    string
		problem  error
		want     metav1.Condition
	}{
		"a ClusterSource with a user and a service account": {
			identity: both, where: where("", &grants.Outcome{Namespaces: []string{"a", "b"}, Leaving: []string{"c"}}),
			want: metav1.Condition{Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
				Message: `user "spiffe://c1" and service account "admiralty/c1" may run pods in 2 namespaces (a, b), ` +
					"and may only end its pods in c"},
		},
		"a Source with a user": {
			identity: grants.Identity{UserName: "c1"}, where: where("team-a", nil),
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
			got := readyCondition(c.identity, c.where, c.problem)
			if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(metav1.Condition{}, "Type")); diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}
