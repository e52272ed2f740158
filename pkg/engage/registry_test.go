package engage

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

type recorder struct {
	log []string
	err error
}

func (r *recorder) Engaged(_ context.Context, target *Target) error {
	r.log = append(r.log, "engaged "+target.NodeName)
	return r.err
}

func (r *recorder) Lost(target *Target) {
	r.log = append(r.log, "lost "+target.NodeName)
}

func (r *recorder) PolicyChanged(target *Target) {
	r.log = append(r.log, fmt.Sprintf("weight %d for %s", *target.Policy().Weight, target.NodeName))
}

func newTarget(name string) *Target {
	return &Target{Key: types.NamespacedName{Name: name}, NodeName: "admiralty-" + name}
}

func TestObserversAreNotifiedOnceThatATargetIsLost(t *testing.T) {
	seen := &recorder{}
	registry := NewRegistry(seen)
	target := newTarget("c2")
	if err := registry.Engage(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	if !target.Reachable() {
		t.Error("a target that was just engaged is not reachable")
	}
	registry.Lose(target)
	registry.Lose(target) // no news
	if target.Reachable() {
		t.Error("a target that is lost is reachable")
	}
	again := newTarget("c2")
	if err := registry.Engage(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if !again.Reachable() {
		t.Error("a target that was engaged anew is not reachable")
	}
	want := []string{"engaged admiralty-c2", "lost admiralty-c2", "engaged admiralty-c2"}
	if diff := cmp.Diff(want, seen.log); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

func TestATargetThatIsOutOfReachForAMomentIsNotLost(t *testing.T) {
	seen := &recorder{}
	registry := NewRegistry(seen)
	target := newTarget("c2")
	registry.Lapse(target)
	registry.Lapse(target) // no news
	if target.Reachable() || target.Lost() {
		t.Errorf("reachable: %t, lost: %t", target.Reachable(), target.Lost())
	}
	registry.Lose(target)
	registry.Lapse(target) // no news
	if target.Reachable() || !target.Lost() {
		t.Errorf("when it is lost: reachable: %t, lost: %t", target.Reachable(), target.Lost())
	}
	if diff := cmp.Diff([]string{"lost admiralty-c2", "lost admiralty-c2"}, seen.log); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

type engagedOnly struct{}

func (engagedOnly) Engaged(context.Context, *Target) error { return nil }

func TestAnObserverMayIgnoreLossesAndPolicies(t *testing.T) {
	registry := NewRegistry(engagedOnly{})
	target := newTarget("c2")
	if err := registry.Engage(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	registry.SetPolicy(target, &v1alpha1.PlacementPolicy{Weight: new(int32(5))})
	registry.Lose(target)
}

func TestObserversAreNotifiedOfNewPoliciesOfEngagedTargets(t *testing.T) {
	seen := &recorder{}
	registry := NewRegistry(seen)
	target := newTarget("c2")
	weight := func(w int32) *v1alpha1.PlacementPolicy { return &v1alpha1.PlacementPolicy{Weight: &w} }
	registry.SetPolicy(target, weight(50)) // not engaged yet
	if err := registry.Engage(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	registry.SetPolicy(target, weight(50)) // no news
	registry.SetPolicy(target, weight(200))
	registry.SetPolicy(newTarget("c2"), weight(300)) // another engagement, which has ended or has not begun
	want := []string{"engaged admiralty-c2", "weight 200 for admiralty-c2"}
	if diff := cmp.Diff(want, seen.log); diff != "" {
		t.Errorf("notifications (-want +got):\n%s", diff)
	}
}

func TestRegistryFindsTargetsUntilTheyAreDisengaged(t *testing.T) {
	registry := NewRegistry()
	old, replaced := newTarget("c2"), newTarget("c2")
	for _, target := range []*Target{old, newTarget("c1"), replaced} {
		if err := registry.Engage(t.Context(), target); err != nil {
			t.Fatal(err)
		}
	}
	registry.Disengage(old) // late: it was replaced
	if got, ok := registry.ByNode("admiralty-c2"); !ok || got != replaced {
		t.Errorf("ByNode: got %v, %t, want the replacement", got, ok)
	}
	registry.Disengage(replaced)
	if _, ok := registry.ByKey(replaced.Key); ok {
		t.Error("ByKey finds a target that was disengaged")
	}
}

func TestAnObserversErrorUndoesTheEngagement(t *testing.T) {
	failure := errors.New("no room")
	registry := NewRegistry(&recorder{err: failure})
	target := newTarget("c2")
	if err := registry.Engage(t.Context(), target); !errors.Is(err, failure) {
		t.Errorf("Engage: got %v, want %v", err, failure)
	}
	if _, ok := registry.ByKey(target.Key); ok {
		t.Error("the target is engaged nevertheless")
	}
}

func TestATargetAllowsTheNamespacesOfItsScope(t *testing.T) {
	for name, test := range map[string]struct {
		key  types.NamespacedName
		want bool
	}{
		"a ClusterTarget allows every namespace":   {types.NamespacedName{Name: "c2"}, true},
		"a Target allows its own namespace":        {types.NamespacedName{Namespace: "team", Name: "c2"}, true},
		"a Target does not allow other namespaces": {types.NamespacedName{Namespace: "other", Name: "c2"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&Target{Key: test.key}).Allows("team"); got != test.want {
				t.Errorf("Allows: got %t, want %t", got, test.want)
			}
		})
	}
}
