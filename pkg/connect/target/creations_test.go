package target

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// late is a PodChaperon that the target's cache does not show yet.
func late() *v1alpha1.PodChaperon {
	return stray("c2", func(c *v1alpha1.PodChaperon) { c.Name = "late" })
}

// begin has an observer of the target create the late PodChaperon, and returns when the request is under way. The error
// of the request follows.
func (l *leaving) begin(t *testing.T, answer func(create func()) error) <-chan error {
	t.Helper()
	sent, answered := make(chan struct{}), make(chan error, 1)
	l.create = func(create func()) error { close(sent); return answer(create) }
	observers := l.loop.engaged.target.Client
	go func() { answered <- observers.Create(t.Context(), late()) }()
	waittest.Receive(t, "the request", sent)
	return answered
}

func TestAPodChaperonThatIsBeingCreatedWhenItsTargetIsDeletedEnds(t *testing.T) {
	const answeredAfter, carriedOutAfter = 5 * time.Second, carriedOutWithin - time.Second
	for name, test := range map[string]struct {
		answer    error // of the request
		carried   time.Duration
		answered  time.Duration
		leavesFor time.Duration
	}{
		"it was created just before": {},
		"the request is answered later": {
			carried: answeredAfter, answered: answeredAfter, leavesFor: answeredAfter,
		},
		"the request was not answered": {
			answer: errors.New("slow"), carried: carriedOutAfter, leavesFor: carriedOutWithin,
		},
		"the request is not answered": {
			answer: context.DeadlineExceeded, answered: answeredAfter, carried: answeredAfter + carriedOutAfter,
			leavesFor: answeredAfter + carriedOutWithin,
		},
		"the server fails": {
			answer:  apierrors.NewInternalError(errors.New("etcdserver: request timed out")),
			carried: carriedOutAfter, leavesFor: carriedOutWithin,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeaving(t)
			answer, carryOut := make(chan error), make(chan func(), 1)
			carried, began := false, l.clock.Now()
			answered := l.begin(t, func(create func()) error {
				carryOut <- create
				return <-answer
			})
			happen := func() {
				if passed := l.clock.Since(began); !carried && passed >= test.carried {
					carried = true
					waittest.Receive(t, "the request", carryOut)()
				}
				if answer != nil && l.clock.Since(began) >= test.answered {
					answer <- test.answer
					answer = nil
					_ = waittest.Receive(t, "the answer", answered)
				}
			}
			happen()
			l.goneBySeconds(t, happen)
			if took := l.clock.Since(began); took < test.leavesFor || took > test.leavesFor+carriedOutWithin/2 {
				t.Errorf("it took %s, want %s", took, test.leavesFor)
			}
			if err := l.there.Get(t.Context(), client.ObjectKeyFromObject(late()), late()); !apierrors.IsNotFound(err) {
				t.Errorf("the PodChaperon stays: %v", err)
			}
			if event := l.event(); !carried || event != "" {
				t.Errorf("created: %t, event: %s", carried, event)
			}
		})
	}
}

// goneBySeconds leaves the target until it is left. Something may happen each second.
func (l *leaving) goneBySeconds(t *testing.T, happen func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() { defer close(ended); l.loop.leave(t.Context(), t.Context(), &l.refuser) }()
	waittest.Eventually(t, "the end of leaving", func() bool {
		select {
		case <-ended:
			return true
		default:
			if l.clock.HasWaiters() {
				l.clock.Step(time.Second)
				happen()
			}
			return false
		}
	})
}

func TestNoPodChaperonIsCreatedInATargetThatIsLeft(t *testing.T) {
	l := newLeaving(t)
	observers := l.loop.engaged.target.Client
	began := l.clock.Now()
	l.gone(t.Context(), t.Context(), &l.refuser)
	if took := l.clock.Since(began); took != 0 {
		t.Errorf("nothing was under way, and it took %s", took)
	}
	if err := observers.Create(t.Context(), late()); !errors.Is(err, errEnded) || l.left(t) != 0 {
		t.Errorf("the PodChaperon was created: %v", err)
	}
}

func TestARequestThatWasRefusedDelaysNothing(t *testing.T) {
	l := newLeaving(t)
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "podchaperons"}, "late", errors.New("a policy"))
	err := waittest.Receive(t, "the refusal", l.begin(t, func(func()) error { return refused }))
	began := l.clock.Now()
	l.gone(t.Context(), t.Context(), &l.refuser)
	if took := l.clock.Since(began); took != 0 || !apierrors.IsForbidden(err) {
		t.Errorf("it took %s, after %v", took, err)
	}
}

func TestAManagerThatStopsSaysThatARequestIsUnderWay(t *testing.T) {
	for _, others := range []bool{true, false} {
		l := newLeaving(t)
		if !others {
			err := l.there.DeleteAllOf(t.Context(), &v1alpha1.PodChaperon{}, client.InNamespace("shop"))
			if err != nil {
				t.Fatal(err)
			}
		}
		answer := make(chan error)
		answered := l.begin(t, func(func()) error { return <-answer })
		life, stop := context.WithCancel(t.Context())
		stop()
		l.gone(life, life, &l.refuser)
		const want = "c2 was deleted, and 1 PodChaperons of it may stay"
		if event := l.event(); !strings.Contains(event, want) {
			t.Errorf("event %q, want one with %q; others were there: %t", event, want, others)
		}
		answer <- nil
		_ = waittest.Receive(t, "the answer", answered)
	}
}
