package hold

import (
	"context"
	"math"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// warily returns the request of a source that is wary of the target.
func (w *world) warily() Request {
	r := w.request()
	r.Wary = func() bool { return true }
	return r
}

func TestATargetThatAnswersIn8SecondsIsHeld(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.warily())
		w.latency.Store(int64(8 * time.Second))
		w.pass(10*time.Minute, func() bool { return h.Context().Err() != nil || h.Overdue() != nil })
		if err := context.Cause(h.Context()); err != nil || h.Overdue() != nil {
			w.Errorf("it was lost: %v; overdue: %v", err, h.Overdue())
		}
	})
}

func TestATargetThatFailsHalfOfTheTimeIsHeld(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.warily())
		begun := w.clock.Now()
		w.pass(10*time.Minute, func() bool {
			w.down.Store(int(w.clock.Since(begun)/(20*time.Second))%2 == 1)
			return h.Context().Err() != nil
		})
		if err := context.Cause(h.Context()); err != nil {
			w.Errorf("it was lost: %v", err)
		}
	})
}

func TestALongerRightIsWaitedFor(t *testing.T) {
	for name, test := range map[string]struct {
		written int32 // instead of the duration that the holder wrote
		want    time.Duration
	}{
		"of a holder that is wary":        {0, timeouts.HoldDurationWary},
		"of one that writes anything":     {math.MaxInt32, timeouts.HoldDurationWary},
		"of one that writes nothing long": {1, timeouts.HoldDuration},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				c1 := &etcd{}
				crash(w.hold(w.leader("a", c1), w.warily()))
				if test.written != 0 {
					lease := w.read()
					lease.Spec.LeaseDurationSeconds = ptr.To(test.written)
					if err := w.target.Update(w.Context(), lease); err != nil {
						w.Fatal(err)
					}
				}
				next := w.acquire(w.leader("b", c1), w.request())
				took := w.pass(2*time.Minute, func() bool { return len(next) > 0 })
				if a := <-next; a.err != nil {
					w.Error(a.err)
				}
				if took < test.want || took > test.want+lookInterval+time.Second {
					w.Errorf("it took over after %s, want %s", took, test.want)
				}
			})
		})
	}
}

// TestNoRenewalShortensARight has a sibling that is wary, and one that is not. Whatever the second one writes, a copy
// of the source must wait until the first one has ended.
func TestNoRenewalShortensARight(t *testing.T) {
	in(t, func(w *world) {
		p := w.leader("a", &etcd{})
		wary := w.hold(p, w.warily())
		sibling := w.request()
		sibling.Target.Name = "sibling"
		w.hold(p, sibling)
		w.pass(time.Minute, func() bool {
			if d := durationOf(w.read()); d != timeouts.HoldDurationWary {
				w.Errorf("the Lease has a duration of %s", d)
				return true
			}
			return false
		})
		wary.Release(w.Context(), false)
		w.pass(timeouts.HoldEndsWary+2*timeouts.HoldRenewal, never)
		if d := durationOf(w.read()); d != timeouts.HoldDuration {
			w.Errorf("nobody relies on the duration %s any more", d)
		}
	})
}

func TestARightEndsInTimeAlsoIfItIsLonger(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.warily())
		w.pass(time.Minute, never)
		w.down.Store(true)
		took := w.pass(time.Minute, func() bool { return h.Context().Err() != nil })
		if took > timeouts.HoldEndsWary+time.Second || took < timeouts.HoldEnds {
			w.Errorf("it ended after %s", took)
		}
	})
}
