package engage

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	fcache "k8s.io/client-go/tools/cache/testing"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

func TestWhenASourceHasNothingInANamespace(t *testing.T) {
	unsaid, another, full, leaving := withholding(), withholding(), withholding(), withholding()
	unsaid.Withheld, another.ClusterID = nil, "another"
	full.Namespaces, leaving.Leaving = []string{"shop"}, []string{"shop"}
	for name, test := range map[string]struct {
		status v1alpha1.SourceGrantStatus
		want   bool
	}{
		"the target withholds nothing":    {withholding(), true},
		"the target withholds other ones": {withholding("other"), true},
		"the target withholds it":         {withholding("other", "shop"), false},
		"the target does not say":         {unsaid, false},
		"the target means another source": {another, false},
		"the source has rights there":     {full, false},
		"it may end its pods there":       {leaving, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, clock, _ := grantOf(t, test.status)
			for range 2 {
				if g.HasNothingIn("shop") {
					t.Error("it is believed too early")
				}
				clock.Step(nothingAfter - 1)
			}
			clock.Step(1)
			if got := g.HasNothingIn("shop"); got != test.want {
				t.Errorf("it has nothing: %t, want %t", got, test.want)
			}
		})
	}
}

func TestATargetMustSayTheSameForAWhile(t *testing.T) {
	g, clock, publish := grantOf(t, withholding())
	g.HasNothingIn("shop")
	clock.Step(2 * nothingAfter)
	publish(withholding("shop"))
	if g.HasNothingIn("shop") {
		t.Error("an earlier status counts")
	}
	publish(withholding())
	if g.HasNothingIn("shop") {
		t.Error("the time before it was withheld counts")
	}
	clock.Step(nothingAfter)
	if !g.HasNothingIn("shop") {
		t.Error("it does not count after a while")
	}
}

// TestATargetMustSayTheSameAllTheWhile has a status between two questions.
func TestATargetMustSayTheSameAllTheWhile(t *testing.T) {
	for name, happens := range map[string]func(g *Grant, target *fcache.FakeControllerSource){
		"something was there": func(_ *Grant, target *fcache.FakeControllerSource) {
			target.Modify(published(withholding("shop")))
			target.Modify(published(withholding()))
		},
		"the SourceGrant was deleted": func(_ *Grant, target *fcache.FakeControllerSource) {
			target.Delete(published(withholding()))
			target.Add(published(withholding()))
		},
		"this source created something": func(g *Grant, _ *fcache.FakeControllerSource) { g.Used("shop") },
	} {
		t.Run(name, func(t *testing.T) {
			target := fcache.NewFakeControllerSource()
			target.Add(published(withholding()))
			informer := toolscache.NewSharedIndexInformer(target, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
			g := NewGrant(informer, nil, "id")
			go informer.RunWithContext(t.Context())
			waittest.Eventually(t, "the SourceGrant is known", func() bool { return g.saysNothingIn("shop") })
			g.HasNothingIn("shop")
			happens(g, target)
			waittest.Eventually(t, "the time begins anew", func() bool {
				g.mu.Lock()
				defer g.mu.Unlock()
				_, known := g.nothing["shop"]
				return !known
			})
		})
	}
}

func TestATargetIsAskedWhetherItSaysSoNow(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		status v1alpha1.SourceGrantStatus
		err    error
		want   bool
	}{
		"it says so":                  {withholding(), nil, true},
		"something is there by now":   {withholding("shop"), nil, false},
		"the target does not answer":  {withholding(), broken, false},
		"it means another source now": {v1alpha1.SourceGrantStatus{ClusterID: "other"}, nil, false},
	} {
		read := func(context.Context) (*v1alpha1.SourceGrant, error) { return published(test.status), test.err }
		g := &Grant{read: read, clusterID: "id"}
		if err := g.HasNothingNow(t.Context(), "shop"); (err == nil) != test.want {
			t.Errorf("%s: error %v", name, err)
		}
		if says := errors.Is(g.HasNothingNow(t.Context(), "shop"), broken); says != (test.err != nil) {
			t.Errorf("%s: the error does not have its cause", name)
		}
	}
}

func TestNoGrantSaysNothing(t *testing.T) {
	g := NewGrant(nil, nil, "id")
	g.Used("shop")
	if g.HasNothingIn("shop") || g.HasNothingNow(t.Context(), "shop") == nil {
		t.Error("it says something")
	}
}

// withholding is the status of a SourceGrant without rights.
func withholding(namespaces ...string) v1alpha1.SourceGrantStatus {
	return v1alpha1.SourceGrantStatus{
		ClusterID: "id", Withheld: &v1alpha1.WithheldNamespaces{Namespaces: namespaces},
	}
}

func published(status v1alpha1.SourceGrantStatus) *v1alpha1.SourceGrant {
	return &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "source"}, Status: status}
}

// grantOf returns a Grant that knows a status, and what publishes another one.
func grantOf(t *testing.T, status v1alpha1.SourceGrantStatus) (
	*Grant, *clocktesting.FakeClock, func(v1alpha1.SourceGrantStatus),
) {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(nil, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
	publish := func(status v1alpha1.SourceGrantStatus) {
		if err := informer.GetStore().Add(published(status)); err != nil {
			t.Fatal(err)
		}
	}
	publish(status)
	g, clock := NewGrant(informer, nil, "id"), clocktesting.NewFakeClock(time.Unix(1000, 0))
	g.clock = clock
	return g, clock, publish
}
