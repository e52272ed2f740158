package placement

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// TestAPodWaitsForADelegateWhosePodChaperonWasDeleted has a PodChaperon that goes between two attempts.
func TestAPodWaitsForADelegateWhosePodChaperonWasDeleted(t *testing.T) {
	const soon, late = time.Second, timeouts.ManagerPatience
	unscheduled := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	refused := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "no")
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no right to read logs"))
	lose := func(w *world, at *Target) { w.registry.Lose(at.Target) }
	for name, test := range map[string]struct {
		last    *v1alpha1.PodChaperon
		runs    bool  // as the target says
		err     error // of the question
		happens func(w *world, at *Target)
		after   time.Duration
		waits   bool
	}{
		"the delegate exists": {
			last: newChaperon("c", "p", unscheduled), runs: true, after: late, waits: true,
		},
		"the delegate is gone": {last: newChaperon("c", "p", unscheduled), after: soon},
		"the target's manager may be creating the delegate": {
			last: newChaperon("c", "p"), after: late - time.Second, waits: true,
		},
		"no creation can be under way any more": {last: newChaperon("c", "p"), after: late},
		"somebody was faster than the target's manager": {
			last: newChaperon("c", "p", toEnd), runs: true, after: soon, waits: true,
		},
		"the target's manager ended the delegate":   {last: newChaperon("c", "p", toEnd), after: soon},
		"the PodChaperon was deleted in foreground": {last: newChaperon("c", "p", deleting), runs: true, after: soon},
		"there was no delegate":                     {last: newChaperon("c", "p", refused), runs: true, after: soon},
		"the target does not let us look": {
			last: newChaperon("c", "p", unscheduled), err: forbidden, after: 39 * time.Second, waits: true,
		},
		"the target does not let us look, and the grace period is over": {
			last: newChaperon("c", "p", unscheduled), err: forbidden, after: 40 * time.Second,
		},
		"the target does not answer": {
			last: newChaperon("c", "p", unscheduled), err: errors.New("broken"), after: late, waits: true,
		},
		"the target is lost": {
			last: newChaperon("c", "p", unscheduled), runs: true, happens: lose, after: soon,
		},
		"the target is disengaged": {
			last: newChaperon("c", "p", unscheduled), runs: true, after: soon,
			happens: func(w *world, at *Target) { w.Delegates.ForgetTarget(at) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", server{}.funcs())
			at.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return test.runs, test.err }
			waiting := w.Delegates.startWaiting(types.NamespacedName{}, "p", at)
			w.Delegates.Seen(at, test.last)
			w.Delegates.stopWaiting("p", waiting)
			w.Delegates.Gone(at, newChaperon("c", "p"))
			if test.happens != nil {
				test.happens(w, at)
			}
			w.clock.Step(test.after)
			err := w.leftoverEnded(t.Context(), newPod("p", nil))
			if waits := err != nil; waits != test.waits {
				t.Errorf("error is %v, want one: %t", err, test.waits)
			}
			again := w.leftoverEnded(t.Context(), newPod("p", nil))
			if test.waits != (again != nil) {
				t.Errorf("the next attempt's error is %v, want one: %t", again, test.waits)
			}
			w.Delegates.Concluded("p", ProxyGone)
			if len(w.Delegates.byProxy) > 0 {
				t.Errorf("when all is gone, %d entries are left", len(w.Delegates.byProxy))
			}
		})
	}
}

func TestNothingIsCreatedWhileADelegateIsLeftOver(t *testing.T) {
	w := newWorld()
	created := false
	left := w.engage(t, "c1", server{}.funcs())
	left.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return true, nil }
	other := w.engage(t, "c2", server{create: func() error { created = true; return nil }}.funcs())
	waiting := w.Delegates.startWaiting(types.NamespacedName{}, "p", left)
	w.Delegates.Seen(left, newChaperon("c", "p", toEnd))
	w.Delegates.stopWaiting("p", waiting)
	w.Delegates.Gone(left, newChaperon("c", "p"))
	err := w.place(t.Context(), newPod("p", nil), other)
	if err == nil || !strings.Contains(err.Error(), "c1 was deleted") || created {
		t.Errorf("error is %v, and a PodChaperon was created: %t", err, created)
	}
}

func TestOnlyPodsThatWereBeingPlacedHaveLeftovers(t *testing.T) {
	for name, happens := range map[string]func(w *world, at *Target){
		"an orphan that feedback ended": func(*world, *Target) {},
		"the pod was bound": func(w *world, at *Target) {
			w.Delegates.startWaiting(types.NamespacedName{}, "p", at)
			w.Delegates.Concluded("p", ProxyBound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", interceptor.Funcs{})
			w.Delegates.Seen(at, newChaperon("c", "p", toEnd))
			happens(w, at)
			w.Delegates.Gone(at, newChaperon("c", "p"))
			if left := w.Delegates.leftoverOf("p"); left != nil {
				t.Errorf("%v is left over", left.chaperon)
			}
		})
	}
}
