package services

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// targetOf returns a target that says that it leads to a cluster.
func targetOf(name, clusterID string) *engage.Target {
	return &engage.Target{Key: types.NamespacedName{Name: name}, ClusterID: clusterID}
}

func TestACopyIsOrphanedIfNobodyWhoLeadsThereLooksAfterIt(t *testing.T) {
	for name, test := range map[string]struct {
		ours, other string // the clusters that c2 and another target say they lead to
		of          string // the target for which the copy was made
		want        bool
	}{
		"our own":                              {"x", "x", "c2", false},
		"that of a target that is gone":        {"x", "x", "gone", true},
		"that of a target of our cluster":      {"x", "x", "other", false},
		"that of a target of another cluster":  {"x", "y", "other", true},
		"that of a target that does not tell":  {"x", "", "other", false},
		"that of a target, and we do not know": {"", "y", "other", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			w.c2.target.ClusterID = test.ours
			w.engage(t, targetOf("other", test.other))
			copied := madeFor(web(), test.of)
			if got := w.c2.orphaned(copied); got != test.want {
				t.Errorf("orphaned: %t, want %t", got, test.want)
			}
			if got := len(w.c2.adopt(copied)) > 0; got != test.want {
				t.Errorf("adopted: %t, want %t", got, test.want)
			}
		})
	}
	w := newWorld(t, nil, nil)
	if old := web(); len(w.c2.relabel(old)) == 0 {
		t.Error("a copy of an earlier version gets no label")
	}
}

func TestACopyThatATargetDoesNotNeed(t *testing.T) {
	remove := "delete Service web"
	handOver := "patch Service web: test uid, test parent-cluster-id, add target-id, add target-hash"
	for name, test := range map[string]struct {
		of      string
		sibling *engage.Target
		lacks   bool // The sibling does not show this copy.
		useless bool
		needs   bool
		want    string
	}{
		"goes": {of: "c2", sibling: targetOf("other", "x"), want: remove},
		"goes to a sibling that needs it": {
			of: "c2", sibling: targetOf("other", "x"), needs: true, want: handOver,
		},
		"does not go to a target that only says that it leads there": {
			of: "c2", sibling: targetOf("other", "x"), lacks: true, needs: true, want: remove,
		},
		"does not go to another cluster": {
			of: "c2", sibling: targetOf("other", "y"), needs: true, want: remove,
		},
		"does not go to a cluster that does not tell": {
			of: "c2", sibling: targetOf("other", ""), needs: true, want: remove,
		},
		"does not go to the target's next engagement": {
			of: "c2", sibling: targetOf("c2", "x"), needs: true, want: remove,
		},
		"does not go to the source itself": {
			of: "c2", needs: true, want: remove,
			sibling: &engage.Target{Key: types.NamespacedName{Name: "other"}, ClusterID: "x", Itself: true},
		},
		"does not go to a target of another namespace": {
			of: "c2", needs: true, want: remove,
			sibling: &engage.Target{Key: types.NamespacedName{Namespace: "bank", Name: "other"}, ClusterID: "x"},
		},
		"stays if another target looks after it": {of: "other", sibling: targetOf("other", "x"), useless: true},
		"stays if it is orphaned, but of use":    {of: "gone", sibling: targetOf("other", "x")},
		"goes if it is orphaned and useless": {
			of: "gone", sibling: targetOf("other", "x"), useless: true, want: remove,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			w.c2.target.ClusterID = "x"
			copied := madeFor(web(), test.of)
			shown := []client.Object{copied.DeepCopy()}
			if test.lacks {
				shown = nil
			}
			w.engage(t, test.sibling, shown...)
			needs := func(*copier) bool { return test.needs }
			if err := w.c2.giveUp(t.Context(), copied, test.useless, needs); err != nil {
				t.Fatal(err)
			}
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			if diff := cmp.Diff(want, w.there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestASiblingThatNeedsAServiceKeepsItsCopy(t *testing.T) {
	global := web(everywhere())
	w := newWorld(t, []client.Object{global}, nil)
	other, _ := w.engage(t, targetOf("other", ""))
	if !other.decisionOf(shop("web"), original{service: global}, nil).follow {
		t.Error("a global Service is not needed")
	}
	if other.decisionOf(shop("web"), original{service: web()}, nil).follow {
		t.Error("a Service without delegates is needed")
	}
}

// TestASiblingWithDelegatesTakesOverACopyWithoutPods has a Service that is scaled to zero.
func TestASiblingWithDelegatesTakesOverACopyWithoutPods(t *testing.T) {
	remove := "delete Service web"
	handOver := "patch Service web: test uid, test parent-cluster-id, add target-id, add target-hash"
	for name, test := range map[string]struct {
		original *corev1.Service
		holds    bool
		want     string
	}{
		"a sibling with delegates":                         {web(), true, handOver},
		"a sibling without delegates":                      {web(), false, remove},
		"a sibling does not need what may not be followed": {web(external), true, remove},
	} {
		t.Run(name, func(t *testing.T) {
			copied := copyOf(t, web())
			w := newWorld(t, []client.Object{test.original}, []client.Object{copied})
			w.c2.target.ClusterID = "x"
			other, _ := w.engage(t, targetOf("other", "x"), copied.DeepCopy())
			if test.holds {
				other.chaperonSeen(&v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}})
			}
			w.c2.idle[shop("web")] = w.clock.Now().Add(-grace)
			if _, err := w.c2.reconcileService(t.Context(), shop("web")); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{test.want}, w.there.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheEndOfAnEngagement(t *testing.T) {
	for name, test := range map[string]struct {
		other   *engage.Target
		failure error
		kept    bool
		looks   bool
	}{
		"a sibling looks after the copies":     {other: targetOf("other", "x"), looks: true},
		"another cluster does not":             {other: targetOf("other", "y")},
		"Secrets that cannot be given up":      {other: targetOf("other", "y"), failure: errors.New("no")},
		"the target's next engagement does so": {other: targetOf("c2", "x"), kept: true, looks: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil, nil)
			kept := true
			w.options.KeepSecrets = func(
				_ context.Context, _ *engage.Target, _ types.NamespacedName, names []string,
			) error {
				kept = len(names) > 0
				return test.failure
			}
			w.copiers = engage.PerTarget[*copier]{} // The engagement has ended.
			w.c2.target.ClusterID = "x"
			w.c2.secured[shop("entry")] = true
			other, _ := w.engage(t, test.other)
			other.prepared.Store(true)
			other.existing[""] = copiesOf(t, web())
			w.c2.handOver(t.Context())
			if kept != test.kept || len(w.c2.secured) > 0 {
				t.Errorf("Secrets are kept: %t, want %t; secured %v", kept, test.kept, w.c2.secured)
			}
			var want []item
			if test.looks {
				want = []item{{}, {kindService, shop("web")}}
			}
			if diff := cmp.Diff(want, queued(other.workers), cmp.AllowUnexported(item{})); diff != "" {
				t.Errorf("items of the other (-want +got):\n%s", diff)
			}
			if other.prepared.Load() == test.looks {
				t.Errorf("the other looks for copies: %t, want %t", !other.prepared.Load(), test.looks)
			}
		})
	}
}

func TestTheEndOfAnEngagementIsNoNewsToItself(t *testing.T) {
	w := newWorld(t, nil, []client.Object{web()})
	w.c2.target.ClusterID = "x"
	w.c2.handOver(t.Context())
	if items := queued(w.c2.workers); len(items) > 0 {
		t.Errorf("items %v", items)
	}
}

func TestWhoSeesAChange(t *testing.T) {
	entry := pathTo("web")
	elsewhere := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "web"}}
	w := newWorld(t, []client.Object{web(), entry}, []client.Object{elsewhere})
	tenant, _ := w.engage(t, &engage.Target{Key: types.NamespacedName{Namespace: "bank", Name: "other"}})
	tenant.existing["bank"] = copiesOf(t)
	ofShop := []item{{kindIngress, shop("entry")}, {kindService, shop("web")}}
	all := []item{ofShop[0], {kindService, client.ObjectKeyFromObject(elsewhere)}, ofShop[1]}
	for name, test := range map[string]struct {
		report          func()
		source, c2, its []item
	}{
		"one item":      {func() { w.route(ofShop[1]) }, ofShop[1:], ofShop[1:], nil},
		"a namespace":   {func() { w.compare("shop") }, ofShop, ofShop, nil},
		"no namespace":  {func() { w.compare("other") }, nil, nil, nil},
		"all of them":   {func() { w.compare("") }, ofShop, all, nil},
		"its Ingresses": {func() { w.c2.enqueueIngresses("shop") }, nil, ofShop[:1], nil},
	} {
		t.Run(name, func(t *testing.T) {
			test.report()
			for who, got := range map[string][2][]item{
				"the source": {test.source, queued(w.selectors)}, "c2": {test.c2, queued(w.c2.workers)},
				"the tenant's target": {test.its, queued(tenant.workers)},
			} {
				sameName := cmp.Transformer("set", func(items []item) map[item]bool {
					set := map[item]bool{}
					for _, i := range items {
						set[i] = true
					}
					return set
				})
				if diff := cmp.Diff(got[0], got[1], sameName); diff != "" {
					t.Errorf("items of %s (-want +got):\n%s", who, diff)
				}
			}
		})
	}
}
