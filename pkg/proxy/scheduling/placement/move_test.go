package placement

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// growing lets a target add nodes, within an hour.
func (w *world) growing(t *Target) {
	timeout := &metav1.Duration{Duration: time.Hour}
	w.registry.SetPolicy(t.Target, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{Timeout: timeout}})
}

var (
	gatedThere = with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")
	fullThere  = with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	bindsThere = with(corev1.PodScheduled, corev1.ConditionTrue, "", "")
)

func newThere(*v1alpha1.PodChaperon) {}

func nominatedThere(chaperon *v1alpha1.PodChaperon) {
	fullThere(chaperon)
	chaperon.Status.NominatedNodeName = "n1"
}

func TestAnInvitedPodIsScheduledAgainUnlessItsTargetIsDeciding(t *testing.T) {
	for name, test := range map[string]struct {
		status func(*v1alpha1.PodChaperon)
		waits  Wait
		ends   bool
	}{
		"it waits behind gates":      {gatedThere, Gated, true},
		"it waits for a node":        {fullThere, Growing, true},
		"others are evicted for it":  {nominatedThere, Undecided, false},
		"the target says nothing":    {func(*v1alpha1.PodChaperon) {}, Undecided, false},
		"the target does not see it": {nil, Undecided, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", server{}.funcs())
			w.growing(at)
			waits, done := make(chan Wait, 10), make(chan error, 1)
			go func() {
				_, err := w.Place(t.Context(), newPod("p", nil), at, Expectation{
					Growth: true, Waiting: func(wait Wait, _ string) { waits <- wait },
				})
				done <- err
			}()
			receive(t, "the first look", waits)
			if test.status != nil {
				chaperon := stored(t, at)
				test.status(chaperon)
				w.Delegates.Seen(at, chaperon)
				if got := receive(t, "the second look", waits); got != test.waits {
					t.Errorf("it waits as %d, want %d", got, test.waits)
				}
			}
			w.Delegates.Invite("p")
			if !test.ends {
				receive(t, "another look", waits)
				return
			}
			if err := receive(t, "the outcome", done); !errors.As(err, new(*InvitedError)) {
				t.Errorf("error is %v", err)
			}
			if w.Delegates.Holder("p") != at {
				t.Error("the target does not hold the pod any more")
			}
		})
	}
}

func TestAPodThatGoesOnWaitingHasNoMoreTime(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", server{}.funcs())
	w.growing(at)
	begun := w.clock.Now()
	w.clock.Step(time.Hour)
	w.Delegates.Seen(at, newChaperon("c", "p", fullThere))
	done := make(chan error, 1)
	go func() {
		_, err := w.Place(t.Context(), newPod("p", nil), at, Expectation{
			Growth: true, Since: begun, Waiting: func(Wait, string) {},
		})
		done <- err
	}()
	eventually(t, "the pod waits for the end", w.clock.HasWaiters)
	w.Delegates.Gone(at, newChaperon("c", "p"))
	const want = "c1: no node was added within 60m (unschedulable: full)"
	if err := receive(t, "the outcome", done); message(err) != want {
		t.Errorf("error is %q, want %q", message(err), want)
	}
}

func TestADelegateIsWithdrawnForAMoveUnlessItsTargetIsDeciding(t *testing.T) {
	const stays = "the pod waits in c1, and another target may have room"
	for name, test := range map[string]struct {
		cached, now func(*v1alpha1.PodChaperon)
		closed      bool
		err         string
	}{
		"it waits behind gates":     {gatedThere, gatedThere, false, ""},
		"it waits for a node":       {fullThere, fullThere, false, ""},
		"others are evicted for it": {nominatedThere, nominatedThere, false, stays},
		"it is scheduled":           {bindsThere, bindsThere, false, stays},
		"it is scheduled meanwhile": {gatedThere, bindsThere, false, stays},
		"others are evicted meanwhile": {
			fullThere, nominatedThere, false, "withdrawing the delegate (c2 has room) from c1: it has changed",
		},
		"it is let through, and waits":                         {gatedThere, fullThere, false, ""},
		"nothing is known of it":                               {newThere, fullThere, false, stays},
		"nothing is known of it, and its target takes no pods": {newThere, newThere, true, ""},
		"others are evicted, and its target takes no pods":     {fullThere, nominatedThere, true, ""},
		"it is scheduled, and its target takes no pods":        {bindsThere, bindsThere, true, stays},
		"it is scheduled as its target takes no more pods":     {newThere, bindsThere, true, stays},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			from := w.engage(t, "c1", server{}.funcs())
			pod, cached := newPod("p", nil), newChaperon("c", "p")
			if err := from.Client.Create(t.Context(), cached); err != nil {
				t.Fatal(err)
			}
			now := cached.DeepCopy()
			test.cached(cached)
			if test.now(now); !sameStatus(cached, now) {
				if err := from.Client.Status().Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			w.Delegates.Seen(from, cached)
			done := make(chan error, 1)
			go func() { done <- w.Vacate(t.Context(), pod, from, Departure{"c2 has room", test.closed}) }()
			if test.err == "" {
				eventually(t, "the end of the delegate", func() bool {
					key := client.ObjectKeyFromObject(cached)
					return from.Client.Get(t.Context(), key, &v1alpha1.PodChaperon{}) != nil
				})
				select {
				case err := <-done:
					t.Fatalf("the delegate may still be there, error %v", err)
				default:
				}
				w.Delegates.Gone(from, cached)
			}
			if err := receive(t, "the outcome", done); message(err) != test.err {
				t.Errorf("error is %q, want %q", message(err), test.err)
			}
			if holds := w.Delegates.Holder("p") == from; holds != (test.err != "") {
				t.Errorf("the target holds the pod: %t", holds)
			}
		})
	}
}

func sameStatus(a, b *v1alpha1.PodChaperon) bool {
	return waitOf(a) == waitOf(b) && Scheduled(a) == Scheduled(b)
}
