package scheduling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func TestATargetIsLeftOutForLongerEachTime(t *testing.T) {
	w := newWorld()
	pod := newPod("p", nil)
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute} {
		w.exclusions.add(pod, "c1", "full")
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
}

func TestATargetWithMoreRoomIsLeftOutForNobody(t *testing.T) {
	w := newWorld()
	w.exclusions.add(newPod("p", nil), "c1", "full")
	w.exclusions.add(newPod("p", nil), "c2", "full")
	w.exclusions.add(newPod("q", nil), "c1", "full")
	w.exclusions.lift("c1")
	got := map[types.UID]map[string]string{"p": w.exclusions.reasons("p"), "q": w.exclusions.reasons("q")}
	if diff := cmp.Diff(map[types.UID]map[string]string{"p": {"c2": "full"}, "q": nil}, got); diff != "" {
		t.Error(diff)
	}
	w.exclusions.add(newPod("q", nil), "c1", "full")
	w.clock.Step(firstExclusion)
	if got := <-w.lifted; got != "p" {
		t.Errorf("lifted for %q, whose second back-off has not passed", got)
	}
}

func TestAPodThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld()
	w.exclusions.add(newPod("p", nil), "c1", "full")
	w.exclusions.forget("p")
	if len(w.exclusions.byPod) > 0 || w.clock.HasWaiters() {
		t.Error("something is left of it")
	}
}
