package scheduling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestATargetIsLeftOutForLongerEachTime(t *testing.T) {
	for name, test := range map[string]struct {
		kind refusal
		want []time.Duration
	}{
		"refused by its API server": {forbidden, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}},
		"too late":                  {late, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute}},
		"unschedulable":             {unschedulable, []time.Duration{5 * time.Minute, 5 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			pod := newPod("p", nil)
			for i, want := range test.want {
				w.exclusions.add(pod, "c1", test.kind, "full", false)
				w.clock.Step(want - time.Second)
				if diff := cmp.Diff(map[string]string{"c1": "full"}, w.exclusions.reasons("p")); diff != "" {
					t.Errorf("time %d, before %s: %s", i, want, diff)
				}
				w.clock.Step(time.Second)
				if got := <-w.lifted; got != "p" {
					t.Errorf("lifted for %q", got)
				}
				if got := w.exclusions.reasons("p"); got != nil {
					t.Errorf("time %d, after %s: %v", i, want, got)
				}
			}
		})
	}
}

func TestMoreRoomEndsAnExclusionWhenItsTimeHasCome(t *testing.T) {
	for name, test := range map[string]struct {
		kind  refusal
		times int
		// held is how long more room does not help.
		held time.Duration
	}{
		"unschedulable once":        {unschedulable, 1, time.Second},
		"unschedulable three times": {unschedulable, 3, 4 * time.Second},
		"unschedulable very often":  {unschedulable, 20, 5 * time.Minute},
		"refused by its API server": {forbidden, 1, 30 * time.Second},
		"too late":                  {late, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for range test.times {
				w.exclusions.add(newPod("p", nil), "c1", test.kind, "full", false)
			}
			w.exclusions.moreRoom("c2")
			if w.exclusions.reasons("p") == nil {
				t.Fatal("lifted by another target's room")
			}
			w.exclusions.moreRoom("c1")
			if test.held > 0 {
				w.clock.Step(test.held - time.Millisecond)
				if w.exclusions.reasons("p") == nil {
					t.Fatalf("lifted before %s", test.held)
				}
				w.clock.Step(time.Millisecond)
				if got := <-w.lifted; got != "p" {
					t.Errorf("lifted for %q", got)
				}
			}
			if got := w.exclusions.reasons("p"); got != nil {
				t.Errorf("after %s: %v", test.held, got)
			}
		})
	}
}

func TestATargetThatIsEngagedAnewIsLeftOutForNobody(t *testing.T) {
	w := newWorld()
	w.exclusions.add(newPod("p", nil), "c1", forbidden, "full", false)
	w.exclusions.add(newPod("p", nil), "c2", forbidden, "full", false)
	w.exclusions.add(newPod("q", nil), "c1", forbidden, "full", false)
	w.exclusions.lift("c1")
	got := map[types.UID]map[string]string{"p": w.exclusions.reasons("p"), "q": w.exclusions.reasons("q")}
	if diff := cmp.Diff(map[types.UID]map[string]string{"p": {"c2": "full"}, "q": nil}, got); diff != "" {
		t.Error(diff)
	}
	w.exclusions.add(newPod("q", nil), "c1", forbidden, "full", false)
	w.clock.Step(30 * time.Second)
	if got := <-w.lifted; got != "p" {
		t.Errorf("lifted for %q, whose second back-off has not passed", got)
	}
}

func TestAPodThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld()
	w.exclusions.add(newPod("p", nil), "c1", forbidden, "full", false)
	w.exclusions.forget("p")
	if len(w.exclusions.byPod) > 0 || w.clock.HasWaiters() {
		t.Error("something is left of it")
	}
}
