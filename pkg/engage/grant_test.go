package engage

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
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
	g, clock, publish := grantOf(t, withholding())
	g.HasNothingIn("shop")
	publish(withholding("shop"))
	g.recheck()
	publish(withholding())
	g.recheck()
	clock.Step(nothingAfter)
	if g.HasNothingIn("shop") {
		t.Error("the time before something was there counts")
	}
	g.recheck()
	clock.Step(nothingAfter)
	if !g.HasNothingIn("shop") {
		t.Error("it does not count after a while")
	}
}

func TestNoGrantSaysNothing(t *testing.T) {
	if g := NewGrant(nil, "id"); g.HasNothingIn("shop") {
		t.Error("it says something")
	}
}

// withholding is the status of a SourceGrant without rights.
func withholding(namespaces ...string) v1alpha1.SourceGrantStatus {
	return v1alpha1.SourceGrantStatus{
		ClusterID: "id", Withheld: &v1alpha1.WithheldNamespaces{Namespaces: namespaces},
	}
}

// grantOf returns a Grant that knows a status, and what publishes another one.
func grantOf(t *testing.T, status v1alpha1.SourceGrantStatus) (
	*Grant, *clocktesting.FakeClock, func(v1alpha1.SourceGrantStatus),
) {
	t.Helper()
	informer := toolscache.NewSharedIndexInformer(nil, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
	publish := func(status v1alpha1.SourceGrantStatus) {
		grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: "source"}, Status: status}
		if err := informer.GetStore().Add(grant); err != nil {
			t.Fatal(err)
		}
	}
	publish(status)
	g, clock := NewGrant(informer, "id"), clocktesting.NewFakeClock(time.Unix(1000, 0))
	g.clock = clock
	return g, clock, publish
}
