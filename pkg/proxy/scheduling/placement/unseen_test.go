package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestAPodLeavesAClosedTargetThatDidNotAnswer has a target that did not answer whether it created a PodChaperon, and
// whose cache shows none.
func TestAPodLeavesAClosedTargetThatDidNotAnswer(t *testing.T) {
	const stays = "the pod waits in c1, and another target may have room"
	for name, test := range map[string]struct {
		after time.Duration
		there *v1alpha1.PodChaperon // in the target, if any
		down  bool
		err   string
	}{
		"there is no PodChaperon": {after: carriedOutWithin},
		"it may still be created": {
			after: carriedOutWithin - 1,
			err:   "leaving c1: it has not answered, and may still create the PodChaperon",
		},
		"there is one":                {after: carriedOutWithin, there: newChaperon("c", "p", fullThere)},
		"there is one of another pod": {after: carriedOutWithin, there: newChaperon("c", "q", bindsThere)},
		"there is one that is scheduled": {
			after: carriedOutWithin, there: newChaperon("c", "p", bindsThere), err: stays,
		},
		"there is one whose delegate is ending": {
			after: carriedOutWithin, there: newChaperon("c", "p", fullThere, func(c *v1alpha1.PodChaperon) {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriod, "")
			}),
			err: "leaving c1: the delegate is being withdrawn",
		},
		"the target does not answer now either": {
			after: carriedOutWithin, down: true,
			err: "leaving c1: looking whether the PodChaperon is there: Internal error occurred: down",
		},
	} {
		t.Run(name, func(t *testing.T) {
			down := true
			answers := func() error {
				if down {
					return apierrors.NewInternalError(errors.New("down"))
				}
				return nil
			}
			w, pod := newWorld(), newPod("p", nil)
			from := w.engage(t, "c1", server{create: answers, get: answers}.funcs())
			if err := w.place(t.Context(), pod, from); err == nil || !w.Delegates.MayLeave(from, "p") {
				t.Fatalf("the pod cannot leave the target, or is placed: %v", err)
			}
			w.clock.Step(test.after)
			down = false
			if test.there != nil {
				w.store(t, from, translate.DelegateName(pod), test.there)
			}
			down = test.down
			done := make(chan error, 1)
			go func() { done <- w.Vacate(t.Context(), pod, from, Departure{"it is cordoned", true}) }()
			if test.err == "" && test.there != nil && ProxyUID(test.there) == "p" {
				eventually(t, "the wait for the end", w.clock.HasWaiters)
				w.clock.Step(time.Minute) // The cache never shows it.
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

func TestAPodChaperonThatTheTargetDoesNotLetUsReadIsMissingIfItSaysSo(t *testing.T) {
	confirmed, setBack := answering(nil), answering(errors.New("it was set back"))
	for name, test := range map[string]struct {
		saysNothing bool
		confirms    func() error
		missing     bool
	}{
		"the target says nothing about the namespace": {false, confirmed, false},
		"it says that it has nothing there":           {true, confirmed, true},
		"it said so, and was set back":                {true, setBack, false},
	} {
		t.Run(name, func(t *testing.T) {
			forbidden := answering(apierrors.NewForbidden(podChaperons, "web", errors.New("no")))
			at := newWorld().engage(t, "c1", server{get: forbidden}.funcs())
			at.FindsNothing = func(namespace string) bool { return test.saysNothing && namespace == "default" }
			at.Confirms = func(context.Context) error { return test.confirms() }
			_, err := live(t.Context(), at, newChaperon("c", "p"))
			missing := apierrors.IsNotFound(err)
			if missing != test.missing || !missing && !apierrors.IsForbidden(err) {
				t.Errorf("error is %v, want not found: %t", err, test.missing)
			}
		})
	}
}

// store has a target's API server store a PodChaperon, which its cache does not show.
func (w *world) store(t *testing.T, at *Target, name string, chaperon *v1alpha1.PodChaperon) {
	t.Helper()
	stored := chaperon.DeepCopy()
	stored.Name = name
	if err := at.Client.Create(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	stored.Status = chaperon.Status
	if err := at.Client.Status().Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
}

func TestWhichPodsCanLeaveATarget(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, at *Target)
		want    bool
	}{
		"nothing is known of the pod": {func(*world, *Target) {}, false},
		"its delegate waits": {func(w *world, at *Target) {
			w.Delegates.Seen(at, newChaperon("c", "p", fullThere))
		}, true},
		"its delegate is scheduled": {func(w *world, at *Target) {
			w.Delegates.Seen(at, newChaperon("c", "p", bindsThere))
		}, false},
		"its delegate is ending": {func(w *world, at *Target) {
			w.Delegates.Seen(at, newChaperon("c", "p", fullThere, deleting))
		}, false},
		"there may be a PodChaperon": {func(w *world, at *Target) { w.Delegates.doubt("p", at, false) }, true},
		"there may be one elsewhere": {func(w *world, _ *Target) {
			w.Delegates.doubt("p", w.engage(t, "c2", server{}.funcs()), false)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", server{}.funcs())
			if test.happens(w, at); w.Delegates.MayLeave(at, "p") != test.want {
				t.Errorf("it can leave: %t", !test.want)
			}
		})
	}
}
