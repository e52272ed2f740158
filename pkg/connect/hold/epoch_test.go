package hold

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

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
		if a := <-w.acquire(standby, w.request()); !errors.As(a.err, new(*TurnedBackError)) {
			w.Errorf("got %v", a.err)
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
