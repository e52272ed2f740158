package placement

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// outlived is a pod that goes while the target's cache does not show its PodChaperon, whose delegate runs on.
type outlived struct {
	*world
	at              *Target
	chaperon        *v1alpha1.PodChaperon
	stop, disengage context.CancelFunc
	done            chan error
}

// goes deletes a pod that is being placed.
func goes(t *testing.T) *outlived {
	t.Helper()
	o := &outlived{world: newWorld(), done: make(chan error, 1)}
	asked := make(chan string, 1)
	o.at = o.engage(t, "c1", lingering(asked))
	o.at.engagement, o.disengage = context.WithCancel(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	o.stop = stop
	pod := newPod("old", nil)
	o.chaperon = newChaperon("c", "old", ofWeb)
	o.chaperon.Name = translate.DelegateName(pod)
	go func() { o.done <- o.place(ctx, pod, o.at) }()
	eventually(t, "the pod waits", o.clock.HasWaiters)
	o.Delegates.Concluded("old", ProxyGone)
	receive(t, "the request to end", asked)
	return o
}

// waits fails the test unless the next pod of the name waits, and nothing happens.
func (o *outlived) waits(t *testing.T) {
	t.Helper()
	eventually(t, "the wait for the cache", o.clock.HasWaiters)
	o.follows(t, true)
}

// follows fails the test unless the next pod of the name waits, or need not wait.
func (o *outlived) follows(t *testing.T, want bool) {
	t.Helper()
	if waits := o.Delegates.Predecessor(web, "new") == o.at; waits != want {
		t.Errorf("the next pod waits: %t, want %t", waits, want)
	}
}

// lookAgain has the time pass after which the API server is asked.
func (o *outlived) lookAgain(t *testing.T) {
	t.Helper()
	o.waits(t)
	o.clock.Step(time.Minute)
}

func TestTheNextPodOfANameWaitsUntilTheCacheShowsTheDelegateOfThePodBefore(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(o *outlived)
		held    bool
	}{
		"the cache shows it": {func(o *outlived) { o.Delegates.Seen(o.at, o.chaperon) }, true},
		"the cache shows that it has ended": {func(o *outlived) {
			o.Delegates.Seen(o.at, o.chaperon)
			o.Delegates.Gone(o.at, o.chaperon)
		}, false},
		"the cache shows its end only": {func(o *outlived) { o.Delegates.Gone(o.at, o.chaperon) }, false},
		"the cache shows an earlier one": {func(o *outlived) {
			before := newChaperon("before", "old", ofWeb)
			o.Delegates.Seen(o.at, before)
			o.waits(t)
			o.Delegates.Gone(o.at, before)
			o.waits(t)
			o.Delegates.Seen(o.at, o.chaperon)
		}, true},
		"the pod is deleted once more": {func(o *outlived) {
			o.Delegates.Concluded("old", ProxyGone)
			o.waits(t)
			o.Delegates.Seen(o.at, o.chaperon)
		}, true},
		"the API server says that it has ended": {func(o *outlived) {
			o.lookAgain(t) // It runs on.
			o.waits(t)
			if err := o.at.Client.DeleteAllOf(
				t.Context(), &v1alpha1.PodChaperon{}, client.InNamespace("default"),
			); err != nil {
				t.Error(err)
			}
			o.lookAgain(t)
		}, false},
		"the target is out of reach for a moment": {func(o *outlived) {
			o.registry.Lapse(o.at.Target)
			o.Delegates.NotifyTarget(o.at.Target)
			o.waits(t)
			o.Delegates.Seen(o.at, o.chaperon)
		}, true},
		"the target is lost": {func(o *outlived) {
			o.registry.Lose(o.at.Target)
			o.Delegates.NotifyTarget(o.at.Target)
		}, false},
		"the target is disengaged": {func(o *outlived) { o.disengage() }, false},
		"the leader changes":       {func(o *outlived) { o.stop() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := goes(t)
			o.waits(t)
			test.happens(o)
			const want = "the pod was deleted or bound while it was placed"
			if err := receive(t, "the outcome", o.done); message(err) != want {
				t.Errorf("error is %q, want %q", message(err), want)
			}
			o.follows(t, test.held)
			if left := len(o.Delegates.byProxy) > 0; left != test.held {
				t.Errorf("something is known of the pod: %t", left)
			}
		})
	}
}

// TestTheNextPodOfANameWaitsForAPodThatWasLeaving has a pod that goes while it leaves a closed target whose cache does
// not show the PodChaperon.
func TestTheNextPodOfANameWaitsForAPodThatWasLeaving(t *testing.T) {
	w, pod, asked := newWorld(), newPod("old", nil), make(chan string, 1)
	var looks atomic.Int32
	funcs := lingering(asked)
	funcs.Get = func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		looks.Add(1)
		return c.Get(ctx, key, o, options...)
	}
	at := w.engage(t, "c1", funcs)
	w.store(t, at, translate.DelegateName(pod), newChaperon("c", "old", ofWeb))
	w.Delegates.doubt("old", at, true)
	done := make(chan error, 1)
	go func() { done <- w.Vacate(t.Context(), pod, at, Departure{"it is cordoned", true}) }()
	receive(t, "the request to end", asked)
	w.Delegates.Concluded("old", ProxyGone)
	before := looks.Load()
	eventually(t, "two more looks", func() bool { // One may be of the time before.
		w.clock.Step(time.Minute)
		return looks.Load() >= before+2
	})
	if w.Delegates.Predecessor(web, "new") != at {
		t.Error("the next pod does not wait")
	}
	chaperon := newChaperon("c", "old", ofWeb)
	w.Delegates.Seen(at, chaperon)
	if err := receive(t, "the outcome", done); message(err) != (&ConcludedError{}).Error() {
		t.Errorf("error is %v", err)
	}
	if w.Delegates.Predecessor(web, "new") != at {
		t.Error("the next pod does not wait for the delegate that the cache shows")
	}
	if w.Delegates.Gone(at, chaperon); w.Delegates.Predecessor(web, "new") != nil {
		t.Error("the next pod waits on")
	}
}
