package grants

import (
	"errors"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// rightsOfC1 are RoleBindings of the user c1 in the namespaces a (full) and b (leaving), and others of it.
func rightsOfC1() []client.Object {
	return []client.Object{
		binding("ClusterRole", fullRole, "a", "multicluster-clustersource:c1"),
		binding("ClusterRole", leavingRole, "b", "multicluster-clustersource-leaving:c1"),
		// In the moment between two RoleBindings it has both.
		binding("ClusterRole", leavingRole, "a", "multicluster-clustersource-leaving:c1"),
		binding("Role", fullRole, "c", "of-the-same-name"),
		binding("ClusterRole", "view", "d", "something-else"),
	}
}

func TestWhatASourceGrantSays(t *testing.T) {
	lease := &v1alpha1.LeaseReference{Namespace: leasesNamespace, Name: translate.SourceGrantName("c1")}
	ofTenant := &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c1"}}
	ofTenant.Spec = v1alpha1.SourceSpec{UserName: "c1", ClusterID: "id1"}
	objects := []client.Object{chaperon("a", "id1"), chaperon("b", "id2"), chaperon("x", "id1"), chaperon("y", "id2")}
	for name, test := range map[string]struct {
		source client.Object
		copies map[string]string // by namespace, nil while they are not listed
		want   v1alpha1.SourceGrantStatus
	}{
		"of a ClusterSource with a cluster ID": {
			source: clusterSource("id1"), copies: map[string]string{"b": "c1", "a": "c2", "y": "c1"},
			want: v1alpha1.SourceGrantStatus{
				Used: []string{"a"}, Copied: []string{"b"}, ClusterID: "id1",
				Withheld: &v1alpha1.WithheldNamespaces{Namespaces: []string{"x"}},
			},
		},
		"of a ClusterSource without a cluster ID, whose PodChaperons may be any": {
			source: clusterSource(""), copies: map[string]string{},
			want: v1alpha1.SourceGrantStatus{Used: []string{"a", "b"}},
		},
		"of a tenant's Source, which learns nothing of other namespaces": {
			source: ofTenant, copies: map[string]string{"a": "c1"},
			want: v1alpha1.SourceGrantStatus{Used: []string{"a"}, Copied: []string{"a"}, ClusterID: "id1"},
		},
		"while copies are not listed": {
			source: ofTenant, want: v1alpha1.SourceGrantStatus{Used: []string{"a"}, ClusterID: "id1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHere(t, append(append(rightsOfC1(), objects...), test.source)...)
			if test.copies != nil {
				h.copied(t, h.keeper.copies[0], test.copies)
			}
			test.want.Namespaces, test.want.Leaving, test.want.Lease = []string{"a"}, []string{"b"}, lease
			wantEqual(t, "status", test.want, h.publish(t, "c1"))
		})
	}
}

func TestAStatusKeepsItsCopiesUntilAllAreListed(t *testing.T) {
	h := newHere(t, append(rightsOfC1(), clusterSource("id1"))...)
	h.copied(t, h.keeper.copies[0], map[string]string{"a": "c1"})
	h.publish(t, "c1")
	h.keeper.copies[0].listed.Store(false) // A manager that has just begun.
	h.keeper.copies[0].informers = nil
	wantEqual(t, "copied", []string{"a"}, h.publish(t, "c1").Copied)
}

func TestAUserMayReadItsSourceGrantAndHoldsItsLease(t *testing.T) {
	h := newHere(t, clusterSource("id1"))
	h.publish(t, "c1")
	name := translate.SourceGrantName("c1")
	wantEqual(t, "bindings", []string{
		leasesNamespace + "/multicluster-" + name + ": Role multicluster-" + name,
		"multicluster-" + name + ": ClusterRole multicluster-" + name,
	}, h.bindings(t))
	reads, holds := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	key := client.ObjectKey{Name: "multicluster-" + name}
	err := h.Get(t.Context(), key, reads)
	key.Namespace = leasesNamespace
	if err := errors.Join(err, h.Get(t.Context(), key, holds)); err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "rights of reading", []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"sourcegrants"}, ResourceNames: []string{name},
		Verbs: []string{"get", "watch"},
	}}, reads.Rules)
	wantEqual(t, "rights to the Lease", []rbacv1.PolicyRule{
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{name},
			Verbs: []string{"get", "watch", "update"},
		},
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			ResourceNames: []string{v1alpha1.LeaseManager}, Verbs: []string{"get"},
		},
	}, holds.Rules)
	lease := &coordinationv1.Lease{}
	if err := h.Get(t.Context(), client.ObjectKey{Namespace: leasesNamespace, Name: name}, lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity != nil || len(lease.OwnerReferences) > 0 {
		t.Errorf("the Lease begins as %v, owned by %v", lease.Spec, lease.OwnerReferences)
	}
	if got := h.again(t, "c1"); got != leaseInterval {
		t.Errorf("the next look at the Lease is after %s", got)
	}
}

func TestWithoutANamespaceOfLeasesThereAreNone(t *testing.T) {
	h := newHere(t, clusterSource("id1"))
	h.publisher.options.LeasesNamespace = ""
	if got := h.publish(t, "c1").Lease; got != nil {
		t.Errorf("Lease %v", got)
	}
}

// TestASourceLearnsOfItsNamespacesWithoutALease has the namespace of Leases deleted.
func TestASourceLearnsOfItsNamespacesWithoutALease(t *testing.T) {
	h := newHere(t, clusterSource("id1"))
	before := h.publish(t, "c1").Lease
	for _, o := range rightsOfC1() {
		if err := h.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, Name: before.Name}}
	if err := h.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	h.fails = func(verb string, o client.Object) error {
		if _, ok := o.(*coordinationv1.Lease); ok && verb == "create" {
			return apierrors.NewForbidden(coordinationv1.Resource("leases"), o.GetName(), errors.New("terminating"))
		}
		return nil
	}
	_, err := h.publisher.Reconcile(t.Context(), requestOf("c1"))
	if err == nil || !strings.Contains(err.Error(), "terminating") {
		t.Errorf("error %v", err)
	}
	status := h.status(t, "c1")
	wantEqual(t, "namespaces", []string{"a"}, status.Namespaces)
	wantEqual(t, "Lease", before, status.Lease)
}

func TestTheRightToReadEverywhereEndsWhenTheSourceNeedsItNoMore(t *testing.T) {
	earlier := "multicluster-source-earlier:"
	sameUser := clusterSource("id1")
	sameUser.Name = "c1-too"
	h := newHere(t, clusterSource("id1"), sameUser, binding("ClusterRole", earlierRole, "", earlier+"c1"),
		binding("ClusterRole", earlierRole, "", earlier+"c1-too"),
		binding("ClusterRole", earlierRole, "", earlier+"c2"))
	have := func() (names []string) {
		for _, b := range h.bindings(t) {
			if name, ok := strings.CutPrefix(b, earlier); ok {
				names = append(names, strings.TrimSuffix(name, ": ClusterRole "+earlierRole))
			}
		}
		return names
	}
	reference := h.publish(t, "c1").Lease
	wantEqual(t, "who has it while the source may be of an earlier version", []string{"c1-too", "c1", "c2"}, have())
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}
	if err := h.Get(t.Context(), key, lease); err != nil {
		t.Fatal(err)
	}
	lease.Annotations = map[string]string{v1alpha1.AnnotationReadsByNamespace: ""}
	if err := h.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	h.again(t, "c1")
	wantEqual(t, "who has it then", []string{"c2"}, have())
}

func TestWithoutASourceNothingIsPublished(t *testing.T) {
	h := newHere(t)
	if _, err := h.publisher.Reconcile(t.Context(), requestOf("c1")); err != nil {
		t.Fatal(err)
	}
	list := &v1alpha1.SourceGrantList{}
	if err := h.List(t.Context(), list); err != nil || len(list.Items) > 0 {
		t.Errorf("SourceGrants %v, error %v", list.Items, err)
	}
}
