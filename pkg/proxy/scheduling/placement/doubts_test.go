package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestADoubtOutlivesAnEngagement has a target that is engaged anew, which may carry out what it was asked for before.
func TestADoubtOutlivesAnEngagement(t *testing.T) {
	for name, test := range map[string]struct {
		before, after func(w *world, old, next *Target)
		waits         time.Duration
		held          bool
	}{
		"a request was not answered":   {before: unanswered, held: true},
		"it was not, and is in time":   {before: unanswered, waits: carriedOutWithin - 1, held: true},
		"it was not, and is late":      {before: unanswered, waits: carriedOutWithin},
		"it was answered":              {before: func(w *world, old, _ *Target) { w.Delegates.doubt("p", old, true) }},
		"a cache lacked a PodChaperon": {before: unseen},
		"a request is under way":       {before: asked, held: true},
		"it is under way for long":     {before: asked, waits: time.Hour, held: true},
		"it is not answered later": {
			before: asked, after: func(w *world, old, _ *Target) { w.Delegates.doubt("p", old, false) }, held: true,
		},
		"it is answered later": {before: asked, after: unseen, held: true},
		"it is answered when the cache has the PodChaperon": {before: asked, after: func(w *world, old, next *Target) {
			w.Delegates.Seen(next, newChaperon("c", "p", toEnd, deleting, fullThere))
			unseen(w, old, next)
			w.Delegates.Gone(next, newChaperon("c", "p"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			old, end := w.engageUntil(t, "c1")
			next := w.engage(t, "c1", interceptor.Funcs{})
			test.before(w, old, next)
			w.clock.Step(test.waits)
			end()
			w.Delegates.ForgetTarget(old, next)
			if test.after != nil {
				test.after(w, old, next)
			}
			if held := w.Delegates.Holder("p") == next; held != test.held {
				t.Errorf("the target holds the pod: %t, want %t", held, test.held)
			}
			if !test.held {
				w.Delegates.Concluded("p", ProxyGone)
			}
			if left := len(w.Delegates.byProxy) > 0; left != test.held {
				t.Errorf("something is known of the pod: %t", left)
			}
		})
	}
}

func unanswered(w *world, old, _ *Target) { w.Delegates.doubt("p", old, false) }
func asked(w *world, old, _ *Target)      { w.Delegates.ask("p", old) }
func unseen(w *world, old, _ *Target)     { w.Delegates.noteUnseen(old, newChaperon("c", "p")) }

// engageUntil engages a target until it is told to end.
func (w *world) engageUntil(t testing.TB, name string) (*Target, context.CancelFunc) {
	t.Helper()
	at := w.engage(t, name, interceptor.Funcs{})
	ctx, end := context.WithCancel(t.Context())
	at.engagement = ctx
	return at, end
}

// TestARequestThatATargetCarriesOutWhenItIsBackHoldsThePod has a request that fails because the target is disengaged.
func TestARequestThatATargetCarriesOutWhenItIsBackHoldsThePod(t *testing.T) {
	for name, test := range map[string]struct {
		back bool
		err  error
		held bool
	}{
		"it is back, and nobody knows": {back: true, err: errors.New("the connection ends"), held: true},
		"it is back, and has answered": {back: true, held: true},
		"it is not back":               {err: errors.New("the connection ends")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			engagement, end := context.WithCancel(t.Context())
			var at, next *Target
			at = w.engage(t, "c1", interceptor.Funcs{Create: func(
				ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption,
			) error {
				if test.back {
					next = w.engage(t, "c1", interceptor.Funcs{})
				}
				end()
				w.Delegates.ForgetTarget(at, next)
				if test.err != nil {
					return test.err
				}
				return c.Create(ctx, o, options...)
			}})
			at.engagement = engagement
			const want = "placing the delegate in c1: it was disconnected"
			if err := w.place(t.Context(), newPod("p", nil), at); message(err) != want {
				t.Errorf("error is %q, want %q", message(err), want)
			}
			holder := w.Delegates.Holder("p")
			if held := holder != nil && holder == next; held != test.held {
				t.Errorf("the target holds the pod: %t, want %t", held, test.held)
			}
		})
	}
}

func TestADoubtEndsWithThePodChaperon(t *testing.T) {
	for name, test := range map[string]struct {
		waits time.Duration
		left  bool
	}{
		"that appears at once, and may be created again": {left: true},
		"that appears when the target creates no more":   {waits: carriedOutWithin},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			w.Delegates.doubt("p", c1, false)
			w.Delegates.doubt("p", c2, false)
			w.clock.Step(test.waits)
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			if left := w.Delegates.isUncertain("p", c1); left != test.left {
				t.Errorf("the target is uncertain: %t, want %t", left, test.left)
			}
			if !w.Delegates.isUncertain("p", c2) {
				t.Error("the other target is not uncertain")
			}
		})
	}
}

func TestWhatATargetMayHaveBesideABoundPod(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1, c2 *Target)
		want    string
	}{
		"nothing":             {func(*world, *Target, *Target) {}, ""},
		"it did not answer":   {func(w *world, _, c2 *Target) { w.Delegates.doubt("p", c2, false) }, "c2"},
		"its own did not":     {func(w *world, c1, _ *Target) { w.Delegates.doubt("p", c1, false) }, ""},
		"its cache shows all": {func(w *world, _, c2 *Target) { w.Delegates.Seen(c2, newChaperon("c", "p")) }, ""},
		"its cache lacks one": {
			func(w *world, _, c2 *Target) { w.Delegates.noteUnseen(c2, newChaperon("c", "p")) }, "c2",
		},
		"it did not answer, and is lost": {func(w *world, _, c2 *Target) {
			w.Delegates.doubt("p", c2, false)
			w.registry.Lose(c2.Target)
		}, ""},
		"its cache showed it since": {func(w *world, _, c2 *Target) {
			w.Delegates.noteUnseen(c2, newChaperon("c", "p"))
			w.Delegates.Seen(c2, newChaperon("c", "p"))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			test.happens(w, c1, c2)
			w.Delegates.Concluded("p", ProxyBound)
			got := ""
			if beside := w.Delegates.Beside("p", c1.NodeName); beside != nil {
				got = beside.Name()
			}
			if got != test.want {
				t.Errorf("beside is %q, want %q", got, test.want)
			}
			w.Delegates.Released(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "p"}}) // It has finished, or is gone.
			w.Delegates.Concluded("p", ProxyGone)
			if beside := w.Delegates.Beside("p", c1.NodeName); (beside != nil) != (test.want != "") {
				t.Errorf("when the pod has finished, beside is %v", beside)
			}
			w.Delegates.Gone(c2, newChaperon("c", "p"))
			w.Delegates.ForgetTarget(c1, nil)
			w.Delegates.ForgetTarget(c2, nil)
			if len(w.Delegates.byProxy) > 0 {
				t.Errorf("when the targets are gone, %d entries are left", len(w.Delegates.byProxy))
			}
		})
	}
}
