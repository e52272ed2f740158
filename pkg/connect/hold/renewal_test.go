package hold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// renewals lets time pass, and counts the renewals that the Lease shows.
func (w *world) renewals(d time.Duration) int {
	n, last := 0, renewedAt(w.read())
	w.pass(d, func() bool {
		if at := renewedAt(w.read()); !at.Equal(last) {
			n, last = n+1, at
		}
		return false
	})
	return n
}

// A right begins when its renewal is sent, not when it is answered: whoever waits for its end sees the former.
func TestASlowAnswerDoesNotProlongTheRight(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		w.latency.Store(int64(3 * time.Second))
		w.pass(time.Minute, never)
		w.down.Store(true)
		w.pass(time.Minute, func() bool { return h.Context().Err() != nil })
		ended := w.clock.Now()
		w.down.Store(false)
		if after := ended.Sub(renewedAt(w.read())); after > timeouts.HoldEnds+time.Second {
			w.Errorf("it ended %s after its last renewal was sent", after)
		}
	})
}

func TestRenewalsAreAsManyAsNecessary(t *testing.T) {
	const most = 1 + int(time.Minute/timeouts.HoldRenewal)
	for name, holds := range map[string]int{"one hold": 1, "siblings": 2} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				p := w.leader("a", &etcd{})
				for i := range holds {
					r := w.request()
					r.Target.Name += strings.Repeat("-too", i)
					w.hold(p, r)
					w.pass(2*time.Second, never)
				}
				w.pass(time.Minute, never)
				if n := w.renewals(time.Minute); n < most-2 || n > most {
					w.Errorf("%d renewals in a minute, want %d", n, most-1)
				}
			})
		})
	}
}

func TestAFailedConfirmationIsNobodysAnswer(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		w.hangs.Store(true)
		w.pass(timeouts.HoldRenewal+time.Second, never) // A renewal is under way, for which both wait.
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- h.Confirm(w.Context()) }()
		}
		w.hangs.Store(false)
		w.down.Store(true)
		w.pass(timeouts.HoldRenewal, func() bool { return len(results) == 2 })
		for range 2 {
			if err := <-results; err == nil {
				w.Error("the target is confirmed although it does not answer")
			}
		}
		if err := context.Cause(h.Context()); err != nil {
			w.Errorf("the hold ended before: %v", err)
		}
	})
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		w.pass(time.Minute, never)
		if err := h.Overdue(); err != nil {
			w.Errorf("overdue: %v", err)
		}
		w.down.Store(true)
		w.pass(timeouts.HoldRenewal+requestTimeout+2*time.Second, never)
		if err := h.Overdue(); err == nil || !strings.Contains(err.Error(), "down") {
			w.Errorf("overdue: %v", err)
		}
	})
	if text := (&TurnedBackError{Remembered: 7, Missing: "no Lease"}).Error(); !strings.Contains(text, "no Lease") {
		t.Errorf("%q", text)
	}
	if text := (&TurnedBackError{Remembered: 7, Found: 5}).Error(); !strings.Contains(text, "of epoch 5") {
		t.Errorf("%q", text)
	}
}

// The Lease was renewed since this hold did it last.
func TestALeaseThatWasRenewedIsLeftToTheNextLeader(t *testing.T) {
	for name, taken := range map[string]bool{"by a sibling": false, "by another process": true} {
		t.Run(name, func(t *testing.T) {
			in(t, func(w *world) {
				p := w.leader("a", &etcd{})
				h := w.hold(p, w.request())
				holder, want := p.holder, p.next
				if taken {
					holder, want = "another", "another"
				}
				w.pass(time.Second, never)
				w.restore(renewal{
					holder: holder, clusterID: "c1", epoch: 1, now: w.clock.Now(), duration: timeouts.HoldDuration,
				}.write(w.read()))
				h.Release(w.Context(), true)
				if got := holderOf(w.read()); got != want {
					w.Errorf("the holder is %q, want %q", got, want)
				}
			})
		})
	}
}

func TestWhatALeaseShows(t *testing.T) {
	in(t, func(w *world) {
		p := w.leader("a", &etcd{})
		for i, r := range []Request{w.request(), w.warily()} {
			h := w.hold(p, r)
			spec := w.read().Spec
			want := []time.Duration{timeouts.HoldDuration, timeouts.HoldDurationWary}[i]
			if got := time.Duration(*spec.LeaseDurationSeconds) * time.Second; got != want {
				w.Errorf("the duration is %s, want %s", got, want)
			}
			if *spec.LeaseTransitions != 1 {
				w.Errorf("%d transitions", *spec.LeaseTransitions)
			}
			h.Release(w.Context(), false)
		}
		w.restore(renewal{holder: "b", now: w.clock.Now()}.write(w.read()))
		if n := *w.read().Spec.LeaseTransitions; n != 2 {
			w.Errorf("%d transitions", n)
		}
	})
}

func TestEpochOf(t *testing.T) {
	for value, want := range map[string]int64{
		"": 0, "0": 0, "7": 7, "-1": 0, "many": 0,
		"281474976710656": maxEpoch, "281474976710657": 0, "9223372036854775808": 0,
	} {
		lease := &coordinationv1.Lease{}
		metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationEpoch, value)
		if got := epochOf(lease); got != want {
			t.Errorf("%q is %d, want %d", value, got, want)
		}
	}
}

func TestWhoIsARival(t *testing.T) {
	doubted := time.Unix(1000, 0)
	for name, test := range map[string]struct {
		doubted time.Time
		after   time.Duration
		last    string
		want    bool
	}{
		"one who renews for the first time": {after: time.Hour, last: "a"},
		"one who goes on to renew": {
			doubted: doubted, after: timeouts.HoldRenewal, last: "a", want: true,
		},
		"one who sends a renewal again that was not answered": {
			doubted: doubted, after: timeouts.HoldRenewal - 1, last: "a",
		},
		"one who takes the Lease from the one who was doubted":  {doubted: doubted, after: time.Hour, last: "b"},
		"one who takes it from the one who was doubted at once": {doubted: doubted, after: time.Second, last: "b"},
	} {
		t.Run(name, func(t *testing.T) {
			s := sight{holder: "a", looked: doubted.Add(test.after), doubted: test.doubted}
			s.doubt(test.last)
			if s.rival != test.want || s.doubted.IsZero() {
				t.Errorf("a rival: %v, doubted: %s", s.rival, s.doubted)
			}
		})
	}
}

func TestWhichStateOfALeaseIsEarlier(t *testing.T) {
	at := time.Unix(1000, 0)
	was := sight{epoch: 5, remembered: 5, holder: "a", renewed: at}
	for name, test := range map[string]struct {
		is   sight
		want bool
	}{
		"the same":                      {was, false},
		"an earlier epoch":              {sight{epoch: 4, holder: "a", renewed: at.Add(1)}, true},
		"an earlier renewal":            {sight{epoch: 5, holder: "a", renewed: at.Add(-1)}, true},
		"a later renewal":               {sight{epoch: 5, holder: "a", renewed: at.Add(1)}, false},
		"another clock":                 {sight{epoch: 5, holder: "b", renewed: at.Add(-time.Hour)}, false},
		"a later epoch":                 {sight{epoch: 6, holder: "b", renewed: at.Add(-time.Hour)}, false},
		"a later epoch, of a set clock": {sight{epoch: 6, holder: "a", renewed: at.Add(-time.Hour)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.is.before(was); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestTheNextHolderIsLeftInTheLeadersLease(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "leader"}}
	clients := fake.NewClientset(lease)
	own := LeaderLease{Leases: clients.CoordinationV1().Leases("system"), Name: "leader"}
	if holder, err := own.NextHolder(t.Context()); holder != "" || err != nil {
		t.Errorf("%q, %v", holder, err)
	}
	if err := own.SetNextHolder(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if holder, err := own.NextHolder(t.Context()); holder != "b" || err != nil {
		t.Errorf("%q, %v", holder, err)
	}
	down := errors.New("down")
	clients.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &coordinationv1.Lease{}, down
	})
	if _, err := own.NextHolder(t.Context()); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
	if err := own.SetNextHolder(t.Context(), "c"); !errors.Is(err, down) {
		t.Errorf("error %v", err)
	}
}

func TestARefusalIsRememberedUntilARenewalIsCarriedOut(t *testing.T) {
	silence := errors.New("no answer")
	noToken := fmt.Errorf("writing: %w", apierrors.NewUnauthorized("no"))
	noRights := fmt.Errorf("writing: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "c1", nil))
	for name, test := range map[string]struct {
		renewals []error
		want     bool
	}{
		"nothing failed":                      {[]error{nil}, false},
		"it did not answer":                   {[]error{silence}, false},
		"it was too busy":                     {[]error{apierrors.NewTooManyRequests("later", 1)}, false},
		"the token":                           {[]error{noToken}, true},
		"the rights":                          {[]error{noRights}, true},
		"the rights, and then no answer":      {[]error{noRights, silence, silence}, true},
		"the rights, which it gave back":      {[]error{noRights, silence, nil}, false},
		"no answer after it gave them back":   {[]error{noRights, nil, silence}, false},
		"it did not answer, and then refused": {[]error{silence, noToken}, true},
	} {
		t.Run(name, func(t *testing.T) {
			h := &Hold{}
			for _, err := range test.renewals {
				h.note(err)
			}
			if h.Refused() != test.want {
				t.Errorf("refused: %t", h.Refused())
			}
		})
	}
}
