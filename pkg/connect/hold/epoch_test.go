package hold

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// restore sets the Lease back to an earlier one.
func (w *world) restore(lease *coordinationv1.Lease) {
	w.Helper()
	lease = lease.DeepCopy()
	lease.ResourceVersion = w.read().ResourceVersion
	if err := w.target.Update(w.Context(), lease); err != nil {
		w.Fatal(err)
	}
}

func TestTheEpochIsRaisedByEveryTakeOverAndByTime(t *testing.T) {
	in(t, func(w *world) {
		p := w.leader("a", &etcd{})
		h := w.hold(p, w.request())
		if h.Epoch() != 1 || epochOf(w.read()) != 1 {
			w.Errorf("the first epoch is %d", h.Epoch())
		}
		w.pass(epochInterval+timeouts.HoldRenewal+time.Second, never)
		if h.Epoch() != 2 || epochOf(w.read()) != 2 {
			w.Errorf("after ten minutes, it is %d", h.Epoch())
		}
		h.Release(w.Context(), false)
		remembering := w.request()
		remembering.Remembered = 2
		if h := w.hold(p, remembering); h.Epoch() != 3 {
			w.Errorf("after an engagement, it is %d", h.Epoch())
		}
	})
}

// TestATargetThatSaysTheGreatestEpochIsHeld has a target that lies about the epoch.
func TestATargetThatSaysTheGreatestEpochIsHeld(t *testing.T) {
	in(t, func(w *world) {
		r := w.request()
		crash(w.hold(w.leader("a", &etcd{}), r))
		lie := w.read()
		lie.Annotations[v1alpha1.AnnotationEpoch] = strconv.FormatInt(maxEpoch, 10)
		w.restore(lie)
		next := <-w.acquire(w.leader("b", &etcd{}), r)
		if next.err != nil {
			w.Fatal(next.err)
		}
		w.pass(epochInterval+timeouts.HoldRenewal+time.Second, never)
		if err := context.Cause(next.hold.Context()); err != nil || epochOf(w.read()) != maxEpoch {
			w.Errorf("the epoch is %d: %v", epochOf(w.read()), err)
		}
	})
}

func TestATargetThatWasSetBackIsNoticedAndAccepted(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		past := w.read()
		r := w.request()
		crash(w.hold(w.leader("a", c1), r))
		w.restore(past)
		r.Remembered = 7
		next := w.leader("b", c1)
		back := &TurnedBackError{}
		if a := <-w.acquire(next, r); !errors.As(a.err, &back) || back.Remembered != 7 || back.Found != 0 {
			w.Fatalf("got %+v", a)
		}
		r.Accepted = 6
		if a := <-w.acquire(next, r); !errors.As(a.err, &back) {
			w.Fatalf("an acceptance of another time counts: %v", a.err)
		}
		r.Accepted = 7
		if h := w.hold(next, r); h.Epoch() != 8 {
			w.Errorf("after the acceptance, the epoch is %d", h.Epoch())
		}
	})
}

func TestASourceThatWasSetBackIsNotTheTarget(t *testing.T) {
	in(t, func(w *world) {
		p := w.leader("a", &etcd{})
		for range 3 {
			w.hold(p, w.request()).Release(w.Context(), false)
		}
		r := w.request()
		r.Remembered = 1
		if h := w.hold(p, r); h.Epoch() != 4 {
			w.Errorf("the epoch is %d", h.Epoch())
		}
	})
}

func TestAHolderNoticesATargetThatWasSetBackBySeconds(t *testing.T) {
	for name, notice := range map[string]func(*world, *Hold){
		"when it renews": func(w *world, h *Hold) {
			w.pass(timeouts.HoldRenewal+time.Second, func() bool { return h.Context().Err() != nil })
		},
		"when it asks": func(w *world, h *Hold) { _ = h.Confirm(w.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				p := w.leader("a", &etcd{})
				h := w.hold(p, w.request())
				if err := h.Confirm(w.Context()); err != nil {
					w.Fatal(err)
				}
				past := w.read()
				w.pass(2*timeouts.HoldRenewal, func() bool { return renewedAt(w.read()).After(renewedAt(past)) })
				w.restore(past)
				notice(w, h)
				back := &TurnedBackError{}
				if cause := context.Cause(h.Context()); !errors.As(cause, &back) || back.Remembered != 2 {
					w.Fatalf("it ended by %v", cause)
				}
				if a := <-w.acquire(p, w.request()); !errors.As(a.err, &back) {
					w.Errorf("it is forgotten: %v", a.err)
				}
			})
		})
	}
}

func TestAStandbyNoticesATargetThatWasSetBackBySeconds(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		h := w.hold(w.leader("a", c1), w.request())
		past := w.read()
		w.pass(2*timeouts.HoldRenewal, never)
		standby := w.process("b", c1)
		standby.Watch(w.request().Target, w.read())
		crash(h)
		w.restore(past)
		standby.Watch(w.request().Target, w.read())
		w.pass(timeouts.HoldDuration, never)
		standby.Lead()
		back := &TurnedBackError{}
		if a := <-w.acquire(standby, w.request()); !errors.As(a.err, &back) || back.Remembered <= back.Found {
			w.Errorf("got %v", a.err)
		}
	})
}

func TestASetBackThatAnotherReplicaAcceptedIsAccepted(t *testing.T) {
	in(t, func(w *world) {
		c1, r := &etcd{}, w.request()
		leads, standby := w.leader("a", c1), w.process("b", c1)
		h := w.hold(leads, r)
		past := w.read()
		w.pass(2*timeouts.HoldRenewal, never)
		standby.Watch(r.Target, w.read())
		w.restore(past)
		standby.Watch(r.Target, w.read())
		w.pass(timeouts.HoldRenewal+time.Second, func() bool { return h.Context().Err() != nil })
		back := &TurnedBackError{}
		if a := <-w.acquire(leads, r); !errors.As(a.err, &back) {
			w.Fatalf("before the acceptance: %v", a.err)
		}
		r.Remembered, r.Accepted = back.Remembered, back.Remembered
		h = w.hold(leads, r)
		r.Remembered = h.Epoch()
		standby.Watch(r.Target, w.read())
		crash(h)
		w.pass(timeouts.HoldDuration, never)
		standby.Lead()
		if again := w.hold(standby, r); again.Epoch() != r.Remembered+1 {
			w.Errorf("the epoch is %d, and was %d", again.Epoch(), r.Remembered)
		}
	})
}

func TestAStandbysLateEventDoesNotTurnTheTargetBack(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		h := w.hold(w.leader("a", c1), w.request())
		early := w.read()
		w.pass(2*timeouts.HoldRenewal, never)
		next := w.process("b", c1)
		next.Watch(w.request().Target, w.read())
		crash(h)
		w.pass(timeouts.HoldDuration, never)
		next.Lead()
		next.Watch(w.request().Target, early)
		w.hold(next, w.request())
	})
}

func TestAForgottenTargetIsANewOne(t *testing.T) {
	in(t, func(w *world) {
		p := w.process("a", &etcd{})
		p.Watch(w.request().Target, renewal{holder: "b", epoch: 7, now: w.clock.Now()}.write(w.read()))
		p.Forget(w.request().Target)
		if len(p.seen) != 0 {
			t.Errorf("it remembers %+v", p.seen)
		}
		p.Lead()
		w.hold(p, w.request())
	})
}

func TestALeaseThatWasReplacedIsTheEndOfAHold(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		if err := w.target.Delete(w.Context(), w.read()); err != nil {
			w.Fatal(err)
		}
		if err := w.target.Create(w.Context(), emptyLease("another")); err != nil {
			w.Fatal(err)
		}
		w.pass(timeouts.HoldEnds, func() bool { return h.Context().Err() != nil })
		if cause := context.Cause(h.Context()); !errors.As(cause, new(*TurnedBackError)) {
			w.Errorf("it ended by %v", cause)
		}
	})
}

// TestAnEpochThatNoSourceWroteCountsAsNone has a target with an epoch after which there is none.
func TestAnEpochThatNoSourceWroteCountsAsNone(t *testing.T) {
	in(t, func(w *world) {
		write := func(epoch string) {
			lease := w.read()
			metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationEpoch, epoch)
			w.restore(lease)
		}
		write("9223372036854775807")
		p, r := w.leader("a", &etcd{}), w.request()
		h := w.hold(p, r)
		if h.Epoch() != 1 || epochOf(w.read()) != 1 {
			w.Errorf("the first epoch is %d, and %d in the target", h.Epoch(), epochOf(w.read()))
		}
		h.Release(w.Context(), false)
		write("9223372036854775807")
		back := &TurnedBackError{}
		if a := <-w.acquire(p, r); !errors.As(a.err, &back) || back.Remembered != 1 {
			w.Fatalf("got %+v", a)
		}
		r.Accepted = back.Remembered
		if h := w.hold(p, r); h.Epoch() != 2 {
			w.Errorf("after the acceptance, the epoch is %d", h.Epoch())
		}
	})
}

// A proxy may pass a request on to another cluster, before anybody notices.
func TestTheLeaseOfAnotherClusterSaysNothingAboutTheTarget(t *testing.T) {
	in(t, func(w *world) {
		p, r := w.leader("a", &etcd{}), w.request()
		other := errors.New("another cluster answers")
		r.Same = func(context.Context) error { return other }
		h := w.hold(p, r)
		right := w.read()
		replace := func(lease *coordinationv1.Lease) {
			lease.ResourceVersion = ""
			err := errors.Join(w.target.Delete(w.Context(), w.read()), w.target.Create(w.Context(), lease))
			if err != nil {
				w.Fatal(err)
			}
		}
		replace(emptyLease("another"))
		if err := h.Confirm(w.Context()); !errors.Is(err, other) {
			w.Errorf("the answer is %v", err)
		}
		replace(right)
		if err := h.Confirm(w.Context()); err != nil || h.Context().Err() != nil {
			w.Errorf("the right cluster is not believed any more: %v, %v", err, context.Cause(h.Context()))
		}
		h.Release(w.Context(), false)
		if again := <-w.acquire(p, r); again.err != nil {
			w.Errorf("the right cluster was set back: %v", again.err)
		}
	})
}

// steppingClock is the time less some.
type steppingClock struct {
	clock.RealClock

	back atomic.Int64
}

func (c *steppingClock) Now() time.Time { return c.RealClock.Now().Add(-time.Duration(c.back.Load())) }

func (c *steppingClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func TestAClockThatIsSetBackIsNotTheTarget(t *testing.T) {
	in(t, func(w *world) {
		stepping := &steppingClock{}
		p := New(Options{ClusterID: "c1", Name: "a", Clock: stepping, OwnLease: &etcd{}})
		p.Lead()
		h := w.hold(p, w.request())
		w.pass(7*time.Second, never)
		standby := w.process("b", &etcd{})
		standby.Watch(w.request().Target, w.read())

		stepping.back.Store(int64(time.Hour))
		for range 5 {
			w.pass(timeouts.HoldRenewal, never)
			standby.Watch(w.request().Target, w.read())
		}
		if err := h.Confirm(w.Context()); err != nil {
			w.Errorf("the holder takes its clock for the target: %v", err)
		}
		is := standby.look(w.request().Target, w.read())
		if is.back || w.clock.Since(is.changed) > timeouts.HoldRenewal {
			w.Errorf("another replica sees %+v", is)
		}
		again := w.hold(p, w.request()) // as a new engagement does
		again.Release(w.Context(), false)
		h.Release(w.Context(), false)
	})
}
