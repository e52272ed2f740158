package target

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// weights observes which weights engaged targets get.
type weights chan int32

func (weights) Engaged(context.Context, *engage.Target) error { return nil }
func (w weights) PolicyChanged(target *engage.Target)         { w <- *target.Policy().Weight }

func (w weights) expect(t *testing.T, want int32) {
	t.Helper()
	select {
	case got := <-w:
		if got != want {
			t.Errorf("the target's weight is %d, want %d", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the target was not given the weight %d", want)
	}
}

func weighing(weight int32) *v1alpha1.PlacementPolicy {
	return &v1alpha1.PlacementPolicy{Weight: &weight}
}

func TestAPolicyReachesTheEngagedTargetWithoutDisturbingTheConnection(t *testing.T) {
	seen := make(weights, 1)
	registry := engage.NewRegistry(seen)
	key, w := types.NamespacedName{Name: "c2"}, want{fingerprint: "same"}
	c := newConnections(
		Options{Registry: registry, Clock: testclock.NewFakeClock(time.Now())},
		func(types.NamespacedName) {},
	)
	l := newLoop(c, key, w, weighing(50))
	c.loops[key] = l
	l.engaged = &engagement{target: &engage.Target{Key: key}, identity: identity.New("")}
	l.passPolicy(l.engaged.target)
	if got := l.engaged.target.Policy().Weight; got == nil || *got != 50 {
		t.Fatalf("before it is engaged, the target's weight is %v", got)
	}
	if err := registry.Engage(t.Context(), l.engaged.target); err != nil {
		t.Fatal(err)
	}
	ctx, _ := l.next(t.Context())
	go l.watch(ctx, w)
	for _, weight := range []int32{200, 300} {
		c.set(t.Context(), key, w, weighing(weight))
		seen.expect(t, weight)
	}
	if ctx.Err() != nil {
		t.Error("a new policy interrupted the connection")
	}
}

func TestTheNewestPolicyIsForTheNextEngagement(t *testing.T) {
	l := newLoop(
		newConnections(Options{Registry: engage.NewRegistry()}, nil),
		types.NamespacedName{Name: "c2"},
		want{},
		weighing(50),
	)
	for _, weight := range []int32{60, 70} { // Nobody receives the tokens now, and nothing blocks.
		l.setPolicy(weighing(weight))
	}
	target := &engage.Target{Key: l.key}
	l.passPolicy(target)
	if got := *target.Policy().Weight; got != 70 {
		t.Errorf("the weight is %d, want 70", got)
	}
}
