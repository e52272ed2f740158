package attempts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

func TestATargetIsLeftOutForLongerEachTime(t *testing.T) {
	for name, test := range map[string]struct {
		backOff BackOff
		want    []time.Duration
	}{
		"a target whose API server refused the pod": {
			FixedTime,
			[]time.Duration{
				30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute,
			},
		},
		"a target that was late": {
			TimeOrMoreRoom,
			[]time.Duration{
				30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute, 5 * time.Minute,
			},
		},
		"a target whose quota is full": {
			TimeOrMoreRoomLater,
			[]time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 5 * time.Minute},
		},
		"a target without rights yet": {ShortTime, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}},
		"a target without room":       {UntilMoreRoom, []time.Duration{5 * time.Minute, 5 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for i, want := range test.want {
				w.refuse("p", "c1", test.backOff)
				w.clock.Step(want - time.Second)
				w.expectNothingDue(t)
				if diff := cmp.Diff(map[string]string{"c1": "full"}, w.leftOut(t, "p")); diff != "" {
					t.Errorf("time %d, before %s: %s", i, want, diff)
				}
				w.clock.Step(time.Second)
				w.expectLifted(t, "p")
				if got := w.leftOut(t, "p"); got != nil {
					t.Errorf("time %d, after %s: %v", i, want, got)
				}
			}
		})
	}
}

func TestMoreRoomEndsAnExclusionWhenItsTimeHasCome(t *testing.T) {
	for name, test := range map[string]struct {
		backOff BackOff
		times   int
		// held is how long more room does not help.
		held time.Duration
	}{
		"a target without room, once":               {UntilMoreRoom, 1, time.Second},
		"a target without room, three times":        {UntilMoreRoom, 3, 4 * time.Second},
		"a target without room, very often":         {UntilMoreRoom, 20, 5 * time.Minute},
		"a target whose API server refused the pod": {FixedTime, 1, 30 * time.Second},
		"a target that was late":                    {TimeOrMoreRoom, 1, 0},
		"a target whose quota is full, once":        {TimeOrMoreRoomLater, 1, time.Second},
		"a target whose quota is full, four times":  {TimeOrMoreRoomLater, 4, 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			for range test.times {
				w.refuse("p", "c1", test.backOff)
			}
			w.MoreRoom("c2")
			if w.leftOut(t, "p") == nil {
				t.Fatal("lifted by another target's room")
			}
			w.MoreRoom("c1")
			if test.held > 0 {
				w.clock.Step(test.held - time.Millisecond)
				w.expectNothingDue(t)
				if w.leftOut(t, "p") == nil {
					t.Fatalf("lifted before %s", test.held)
				}
				w.clock.Step(time.Millisecond)
				w.expectLifted(t, "p")
			}
			if got := w.leftOut(t, "p"); got != nil {
				t.Errorf("after %s: %v", test.held, got)
			}
		})
	}
}

func TestATargetThatIsEngagedAnewIsLeftOutForNobody(t *testing.T) {
	w := newWorld()
	w.refuse("p", "c1", FixedTime)
	w.refuse("p", "c2", FixedTime)
	w.refuse("q", "c1", FixedTime)
	w.Lift("c1")
	got := map[types.UID]map[string]string{"p": w.leftOut(t, "p"), "q": w.leftOut(t, "q")}
	if diff := cmp.Diff(map[types.UID]map[string]string{"p": {"c2": "full"}, "q": nil}, got); diff != "" {
		t.Error(diff)
	}
	w.refuse("q", "c1", FixedTime)
	w.clock.Step(30 * time.Second)
	w.expectLifted(t, "p") // and not for q, whose second back-off has not passed
}

func TestAPodThatIsGoneIsForgotten(t *testing.T) {
	w := newWorld()
	w.refuse("p", "c1", FixedTime)
	w.Forget("p")
	if len(w.byPod)+len(w.excluded) > 0 || w.clock.HasWaiters() {
		t.Error("something is left of it")
	}
}

// lateClock keeps the functions of timers. Stopping a timer does not keep its function from being called, as with a
// function that waits for a lock when its timer is stopped.
type lateClock struct {
	schedulingtest.Clock
	due []func()
}

func (c *lateClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	c.due = append(c.due, f)
	return c.NewTimer(d)
}

func TestATimerThatWasStoppedTooLateLiftsNothing(t *testing.T) {
	for name, happens := range map[string]func(w *world){
		"the target has refused the pod again": func(w *world) { w.refuse("p", "c1", FixedTime) },
		"the exclusion was lifted":             func(w *world) { w.Lift("c1") },
		"the pod is gone":                      func(w *world) { w.Forget("p") },
	} {
		t.Run(name, func(t *testing.T) {
			w, late := newWorld(), &lateClock{Clock: schedulingtest.NewClock()}
			w.Attempts = New(late, func(_ types.NamespacedName, pod types.UID) { w.lifted <- pod })
			w.refuse("p", "c1", FixedTime)
			happens(w)
			before := w.leftOut(t, "p")
			late.due[0]()
			if len(w.lifted) > 0 {
				t.Error("an exclusion was lifted")
			}
			if diff := cmp.Diff(before, w.leftOut(t, "p")); diff != "" {
				t.Errorf("targets that are left out (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTheBeginningOfALongReasonIsRemembered(t *testing.T) {
	w := newWorld()
	w.Failed(schedulingtest.NewPod("p", nil), Failure{
		NodeName: "c1", Refused: true, Reason: strings.Repeat("x", 3<<20), BackOff: FixedTime,
	})
	if got := len(w.leftOut(t, "p")["c1"]); got != maxReason {
		t.Errorf("%d bytes are remembered", got)
	}
}
