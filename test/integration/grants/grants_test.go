package grants

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func team(name string) map[string]string { return map[string]string{"team": name} }

func selecting(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func naming(names ...string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
	}}
}

// published waits until the SourceGrant lists a namespace, or does not, as the source itself reads it.
func published(t *testing.T, i identity, namespace string, full, leaving bool) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		grant := i.grantOf()
		if err := i.client.Get(ctx, client.ObjectKeyFromObject(grant), grant); err != nil {
			return err
		}
		s := grant.Status
		if slices.Contains(s.Namespaces, namespace) != full || slices.Contains(s.Leaving, namespace) != leaving {
			return fmt.Errorf("status is %+v, want %q in namespaces: %t, in leaving: %t", s, namespace, full, leaving)
		}
		if s.ClusterID != "id-of-"+i.name {
			return fmt.Errorf("cluster ID is %q", s.ClusterID)
		}
		return nil
	})
}

func TestASourceMayActInSelectedNamespacesOnly(t *testing.T) {
	run(t, false, nil)
	mine, other := namespaceWithPod(t, team("a")), namespaceWithPod(t, team("b"))
	c1, c2 := newIdentity(t), newIdentity(t)
	c1.connect(t, selecting(team("a")))
	c2.connect(t, nil)

	c1.expect(t, mine, all)
	c1.expect(t, other, nothing)
	c2.expect(t, mine, all)
	c2.expect(t, other, all)
	published(t, c1, mine, true, false)
	published(t, c1, other, false, false)

	// It reads PodChaperons in its namespaces, and no SourceGrant of another source.
	env.Must(t, c1.client.List(t.Context(), &v1alpha1.PodChaperonList{}, client.InNamespace(mine)))
	for _, where := range []string{other, ""} {
		err := c1.client.List(t.Context(), &v1alpha1.PodChaperonList{}, client.InNamespace(where))
		if !apierrors.IsForbidden(err) {
			t.Errorf("listing PodChaperons in namespace %q: %v, want forbidden", where, err)
		}
	}
	grant := c2.grantOf()
	if err := c1.client.Get(t.Context(), client.ObjectKeyFromObject(grant), grant); !apierrors.IsForbidden(err) {
		t.Errorf("reading the SourceGrant of another source: %v, want forbidden", err)
	}
	if err := c1.client.List(t.Context(), &v1alpha1.SourceGrantList{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing SourceGrants: %v, want forbidden", err)
	}
}

func TestANamespacedSourceActsInItsNamespaceOnly(t *testing.T) {
	run(t, false, nil)
	mine, other := namespaceWithPod(t, nil), namespaceWithPod(t, nil)
	c1 := newIdentity(t)
	env.Create(t, target, &v1alpha1.Source{
		ObjectMeta: env.Meta(mine, c1.name),
		Spec:       v1alpha1.SourceSpec{UserName: c1.user, ClusterID: "id-of-" + c1.name},
	})
	c1.expect(t, mine, all)
	c1.expect(t, other, nothing)
	published(t, c1, mine, true, false)
	if s := env.Get(t, target, c1.grantOf()).Status; s.ClusterID != "id-of-"+c1.name || s.Withheld != nil {
		t.Errorf("a tenant learns where a cluster ID has pods: %+v", s)
	}
	for namespace, want := range map[string]bool{mine: true, other: false} {
		for _, rule := range []rbacv1.PolicyRule{
			{Verbs: []string{"act-as-source"}, Resources: []string{"podchaperons"}},
			{Verbs: []string{"use"}, Resources: []string{"clusterids"}, ResourceNames: []string{"id-of-" + c1.name}},
		} {
			if got := may(t, c1.user, namespace, &rule); got != want {
				t.Errorf("in namespace %q, %v is allowed: %t, want %t", namespace, rule, got, want)
			}
		}
	}
}

func TestANewNamespaceWorksWithinSeconds(t *testing.T) {
	run(t, false, nil)
	c1 := newIdentity(t)
	c1.connect(t, selecting(team("later")))
	fresh := namespaceWithPod(t, team("later"))
	c1.expect(t, fresh, all)
	relabelled := namespaceWithPod(t, nil)
	c1.expect(t, relabelled, nothing)
	label(t, relabelled, "team", "later")
	c1.expect(t, relabelled, all)
	published(t, c1, relabelled, true, false)
}

func TestADeselectedNamespaceRefusesCreationOnly(t *testing.T) {
	run(t, false, nil)
	namespace, unused := namespaceWithPod(t, team("x")), namespaceWithPod(t, team("x"))
	c1, c2 := newIdentity(t), newIdentity(t)
	c1.connect(t, selecting(team("x")))
	c2.connect(t, nil)
	c1.expect(t, namespace, all)
	c2.expect(t, namespace, all)
	chaperon, copied, others := c1.chaperon(namespace, "web"), c1.copied(namespace, "web"), c2.chaperon(namespace, "c2")
	env.Must(t, c1.client.Create(t.Context(), chaperon))
	env.Must(t, c1.client.Create(t.Context(), copied))
	env.Must(t, c2.client.Create(t.Context(), others))

	label(t, namespace, "team", "y")
	label(t, unused, "team", "y")
	c1.expect(t, namespace, ending)
	c1.expect(t, unused, nothing)
	c2.expect(t, namespace, all)
	published(t, c1, namespace, false, true)

	// The policy still limits the source to its own copies.
	notOurs := &corev1.ConfigMap{ObjectMeta: env.Meta(namespace, "another")}
	env.Create(t, target, notOurs)
	if err := c1.client.Delete(t.Context(), notOurs); !apierrors.IsForbidden(err) {
		t.Errorf("deleting another's ConfigMap in a namespace that the source leaves: %v, want forbidden", err)
	}

	env.Must(t, c1.client.Delete(t.Context(), chaperon))
	env.WaitGone(t, target, chaperon)
	c1.expect(t, namespace, ending) // The copy is still there.
	env.Must(t, c1.client.Delete(t.Context(), copied))
	c1.expect(t, namespace, nothing)
	published(t, c1, namespace, false, false)

	label(t, namespace, "team", "x")
	c1.expect(t, namespace, all)
}

func TestCopiesThatTheManagerMayNotListAreReported(t *testing.T) {
	forbidden := atomic.Bool{}
	forbidden.Store(true)
	run(t, false, func(r *http.Request) *http.Response {
		if !forbidden.Load() || r.URL.Path != "/api/v1/persistentvolumeclaims" {
			return nil
		}
		body := io.NopCloser(strings.NewReader("no such right"))
		return &http.Response{StatusCode: http.StatusForbidden, Body: body, Request: r, Header: http.Header{}}
	})
	namespace := namespaceWithPod(t, team("listed"))
	c1 := newIdentity(t)
	object := c1.connect(t, selecting(team("listed")))
	c1.expect(t, namespace, all)
	label(t, namespace, "team", "none")
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonReady, "copies of persistentvolumeclaims")
	c1.expect(t, namespace, ending)
	forbidden.Store(false)
	c1.expect(t, namespace, nothing)
	env.WaitFor(t, target, object, func(object *v1alpha1.ClusterSource) error {
		ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
		if !strings.HasSuffix(ready.Message, "may run pods in 0 namespaces") {
			return fmt.Errorf("condition is %q", ready.Message)
		}
		return nil
	})
}

func TestHandBoundRolesStay(t *testing.T) {
	run(t, true, nil)
	namespace := namespaceWithPod(t, nil)
	c1, byHand := newIdentity(t), newIdentity(t)
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: env.SourceRole}
	everywhere := byHand.oldBinding()
	everywhere.Labels = nil
	inOne := &rbacv1.RoleBinding{
		ObjectMeta: env.Meta(namespace, "multicluster-clustersource:"+c1.name),
		RoleRef:    role, Subjects: everywhere.Subjects,
	}
	env.Create(t, target, everywhere, inOne)
	for _, i := range []identity{byHand, c1} {
		env.Create(t, target, i.clusterSource(selecting(team("nobody"))))
		waitCondition(t, i.clusterSource(nil), v1alpha1.ConditionReady, v1alpha1.ReasonReady, "0 namespaces")
	}
	byHand.expect(t, namespace, all)
	byHand.expect(t, "default", all)

	// A binding by hand that has the name of one of ours is reported.
	object := c1.clusterSource(nil)
	env.Change(t, target, object, func(s *v1alpha1.ClusterSource) { s.Spec.NamespaceSelector = nil })
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonFailed, "the manager did not create it")
	if got := env.Get(t, target, inOne).Subjects; got[0].Name != byHand.name {
		t.Errorf("subjects of the binding by hand are %+v", got)
	}
	other := namespaceWithPod(t, nil)
	c1.expect(t, other, all) // The others do not wait.
	env.Get(t, target, everywhere)
}

func TestExcludedNamespacesMustBeNamed(t *testing.T) {
	run(t, false, nil)
	excluded := namespaceWithPod(t, map[string]string{v1alpha1.LabelSources: v1alpha1.LabelSourcesExcluded})
	for _, namespace := range []string{"kube-system", "kube-public", env.ReleaseNamespace} {
		addPod(t, namespace)
	}
	for _, selector := range []*metav1.LabelSelector{nil, {}} {
		c1 := newIdentity(t)
		c1.connect(t, selector)
		for _, namespace := range []string{excluded, "kube-system", env.ReleaseNamespace} {
			c1.expect(t, namespace, nothing)
		}
	}
	c1 := newIdentity(t)
	c1.connect(t, naming("kube-system", excluded))
	c1.expect(t, "kube-system", all)
	c1.expect(t, excluded, all)
	c1.expect(t, env.ReleaseNamespace, nothing)

	c2 := newIdentity(t)
	c2.connect(t, nil)
	label(t, "kube-public", v1alpha1.LabelSources, v1alpha1.LabelSourcesAllowed)
	c2.expect(t, "kube-public", all)
	label(t, "kube-public", v1alpha1.LabelSources, "")
	c2.expect(t, "kube-public", nothing)
}

func TestOldClusterWideBindingsGoWhenTheirPlaceIsTaken(t *testing.T) {
	ordinary, unselected := namespaceWithPod(t, team("old")), namespaceWithPod(t, nil)
	addPod(t, "kube-system")
	addPod(t, "kube-public")
	c1 := newIdentity(t)
	old := c1.oldBinding()
	env.Create(t, target, old)
	c1.expect(t, "kube-system", all)
	inUse := c1.copied("kube-system", "web-"+c1.name)
	env.Must(t, c1.client.Create(t.Context(), inUse))

	// From the start of the manager to its end, the source may always create PodChaperons.
	watching, end := context.WithCancel(t.Context())
	refused := make(chan error, 1)
	go func() {
		defer close(refused)
		for watching.Err() == nil {
			err := c1.client.Create(watching, c1.chaperon(ordinary, "new"), client.DryRunAll)
			if err != nil && watching.Err() == nil {
				refused <- err
				return
			}
		}
	}()
	stop := run(t, false, nil)
	object := c1.clusterSource(nil)
	env.Create(t, target, object)
	env.WaitGone(t, target, old)
	c1.expect(t, ordinary, all)
	c1.expect(t, unselected, all)
	c1.expect(t, "kube-public", nothing)
	c1.expect(t, "kube-system", all)
	waitCondition(t, object, v1alpha1.ConditionRestricted, v1alpha1.ReasonWouldRefuse, "kube-system")
	env.WaitForEvent(t, target, object, v1alpha1.ReasonWouldRefuse, "kube-system")
	end()
	if err := <-refused; err != nil {
		t.Errorf("meanwhile the source was refused: %v", err)
	}
	readsEverywhereUntilItIsUpgraded(t, c1, object)

	stop()
	run(t, true, nil)
	c1.expect(t, "kube-system", ending)
	waitCondition(t, object, v1alpha1.ConditionRestricted, v1alpha1.ReasonRestricted, "")
	env.Delete(t, target, inUse)
	c1.expect(t, "kube-system", nothing)
}

func TestInvalidSelectorsAreRefusedOrReported(t *testing.T) {
	run(t, false, nil)
	for name, e := range map[string]struct {
		requirement metav1.LabelSelectorRequirement
		want        string
	}{
		"an unknown operator": {metav1.LabelSelectorRequirement{Key: "a", Operator: "Like"}, "operator must be In"},
		"In without values":   {metav1.LabelSelectorRequirement{Key: "a", Operator: "In"}, "In and NotIn need values"},
		"Exists with values": {
			metav1.LabelSelectorRequirement{Key: "a", Operator: "Exists", Values: []string{"b"}},
			"In and NotIn need values",
		},
	} {
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{e.requirement}}
		err := target.Client.Create(t.Context(), identity{name: "never-made"}.clusterSource(selector), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), e.want) {
			t.Errorf("%s: the answer is %v, want one with %q", name, err, e.want)
		}
	}
	namespace := namespaceWithPod(t, team("valid"))
	c1 := newIdentity(t)
	object := c1.connect(t, selecting(team("valid")))
	env.Change(t, target, object, func(s *v1alpha1.ClusterSource) {
		s.Spec.NamespaceSelector = selecting(map[string]string{"not a key": "a"})
	})
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonInvalidSelector, "not a key")
	c1.expect(t, namespace, all)
}

// TestAThousandNamespacesIdle counts what a source with many namespaces costs. The log has the numbers.
func TestAThousandNamespacesIdle(t *testing.T) {
	const many = 1000
	var watches, writes, reads atomic.Int64
	run(t, false, func(r *http.Request) *http.Response {
		switch {
		case r.URL.Query().Get("watch") != "":
			watches.Add(1)
		case r.Method == http.MethodGet:
			reads.Add(1)
		default:
			writes.Add(1)
		}
		return nil
	})
	for n := range many {
		meta := metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", n), Labels: team("many")}
		env.Ensure(t, target, &corev1.Namespace{ObjectMeta: meta})
	}
	c1 := newIdentity(t)
	empty := heap()
	object := c1.connect(t, selecting(team("many")))
	grant := env.WaitFor(t, target, c1.grantOf(), func(g *v1alpha1.SourceGrant) error {
		if len(g.Status.Namespaces) != many {
			return fmt.Errorf("%d namespaces", len(g.Status.Namespaces))
		}
		return nil
	})
	bindings := &rbacv1.RoleBindingList{}
	env.Must(t, target.Client.List(t.Context(), bindings, client.HasLabels{v1alpha1.GroupName + "/source"}))
	ours := 0
	for i := range bindings.Items {
		if strings.HasSuffix(bindings.Items[i].Name, ":"+c1.name) {
			ours++
		}
	}
	env.ExpectEqual(t, "RoleBindings", many, ours)
	t.Logf("%d namespaces: %d RoleBindings, %d writes, %d reads, %d watches, SourceGrant of %d bytes, %d KiB of heap",
		many, ours, writes.Load(), reads.Load(), watches.Load(), size(t, grant), (heap()-empty)/1024)

	// Everything is as wanted, so a new round reads the cache and writes the generation into the status only.
	before := writes.Load() + reads.Load()
	env.Change(t, target, object, func(s *v1alpha1.ClusterSource) { s.Spec.ClusterID = "" })
	env.Change(t, target, object, func(s *v1alpha1.ClusterSource) { s.Spec.ClusterID = "id-of-" + c1.name })
	waitCondition(t, object, v1alpha1.ConditionReady, v1alpha1.ReasonReady, "1000 namespaces")
	if after := writes.Load() + reads.Load(); after-before > 20 {
		t.Errorf("a round without changes of namespaces made %d requests", after-before)
	}
}

func size(t *testing.T, object any) int {
	t.Helper()
	data, err := json.Marshal(object)
	env.Must(t, err)
	return len(data)
}

// heap returns the bytes in use. The caches of the controllers are the largest part.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
