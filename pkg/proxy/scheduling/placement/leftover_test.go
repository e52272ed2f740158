package placement

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// leave has the cache of a target lose a PodChaperon between two attempts to place the pod.
func (w *world) leave(at *Target, last *v1alpha1.PodChaperon) {
	waiting := w.Delegates.startWaiting(types.NamespacedName{}, "p", at)
	w.Delegates.Seen(at, last)
	w.Delegates.stopWaiting("p", waiting)
	w.Delegates.Gone(at, newChaperon(last.UID, "p"))
}

// finds makes a target answer whether it has a delegate.
func (t *Target) finds(runs bool, err error) {
	t.FindsPod = func(context.Context, types.NamespacedName) (bool, error) { return runs, err }
}

func TestAPodIsNotPlacedElsewhereWhileADelegateWithoutAPodChaperonMayRun(t *testing.T) {
	const soon = time.Second
	unscheduled := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	refused := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "no")
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no right to read logs"))
	for name, test := range map[string]struct {
		last  *v1alpha1.PodChaperon
		runs  bool  // as the target says
		err   error // of the question
		after time.Duration
		waits bool
	}{
		"the delegate exists":  {newChaperon("c", "p", unscheduled), true, nil, time.Hour, true},
		"the delegate is gone": {newChaperon("c", "p", unscheduled), false, nil, soon, false},
		"the target's manager may be creating the delegate": {
			newChaperon("c", "p"), false, nil, timeouts.ManagerPatience - soon, true,
		},
		"no creation can be under way any more": {
			newChaperon("c", "p"), false, nil, timeouts.ManagerPatience, false,
		},
		"somebody was faster than the target's manager": {newChaperon("c", "p", toEnd), true, nil, soon, true},
		"the target's manager ended the delegate":       {newChaperon("c", "p", toEnd), false, nil, soon, false},
		"somebody deleted the PodChaperon twice, first in the foreground": {
			newChaperon("c", "p", unscheduled, deleting), true, nil, soon, true,
		},
		"there was no delegate":     {newChaperon("c", "p", refused), true, nil, soon, false},
		"the delegate had finished": {newChaperon("c", "p", inPhase(corev1.PodFailed)), true, nil, soon, false},
		"the target does not let us look": {
			newChaperon("c", "p", unscheduled), false, forbidden, 39 * time.Second, true,
		},
		"the target does not let us look, and the grace period is over": {
			newChaperon("c", "p", unscheduled), false, forbidden, 40 * time.Second, false,
		},
		"the target does not let us look, and a creation was under way": {
			newChaperon("c", "p"), false, forbidden, timeouts.ManagerPatience + 39*time.Second, true,
		},
		"the target does not answer": {
			newChaperon("c", "p", unscheduled), false, errors.New("broken"), time.Hour, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			c1.finds(test.runs, test.err)
			w.leave(c1, test.last)
			w.clock.Step(test.after)
			for range 2 { // Both attempts see the same.
				err := w.leftoversEnded(t.Context(), newPod("p", nil), c2)
				if waits := err != nil; waits != test.waits {
					t.Errorf("error is %v, want one: %t", err, test.waits)
				}
			}
			w.Delegates.Concluded("p", ProxyGone)
			if len(w.Delegates.byProxy) > 0 {
				t.Errorf("when the proxy is gone, %d entries are left", len(w.Delegates.byProxy))
			}
		})
	}
}

func TestWhatNoPodWaitsFor(t *testing.T) {
	own := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	refused := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "no")
	for name, test := range map[string]struct {
		happens func(w *world, c1 *Target)
		waits   bool
	}{
		"nothing happens": {func(*world, *Target) {}, true},
		"the target is out of reach for a moment": {
			func(w *world, c1 *Target) { w.registry.Lapse(c1.Target) }, true,
		},
		"the target is lost": {func(w *world, c1 *Target) { w.registry.Lose(c1.Target) }, false},
		"it is disengaged":   {func(w *world, c1 *Target) { w.Delegates.ForgetTarget(c1, nil) }, false},
		"the pod is bound":   {func(w *world, _ *Target) { w.Delegates.Concluded("p", ProxyBound) }, false},
		"its next delegate is there": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("d", "p", own)) }, false,
		},
		"its next delegate may be there": {
			func(w *world, c1 *Target) { w.Delegates.doubt("p", c1, false) }, false,
		},
		"its next PodChaperon is refused": {
			func(w *world, c1 *Target) { w.Delegates.Seen(c1, newChaperon("d", "p", refused)) }, true,
		},
		"its next PodChaperon is withdrawn": {func(w *world, c1 *Target) {
			w.Delegates.Seen(c1, newChaperon("d", "p", own))
			w.Delegates.setWithdrawn("p", "d", true)
		}, true},
		"its next PodChaperon goes, too": {func(w *world, c1 *Target) {
			w.Delegates.Seen(c1, newChaperon("d", "p", refused))
			w.Delegates.Gone(c1, newChaperon("d", "p"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			c1.finds(true, nil)
			w.leave(c1, newChaperon("c", "p", own))
			test.happens(w, c1)
			err := w.leftoversEnded(t.Context(), newPod("p", nil), c2)
			if waits := err != nil; waits != test.waits {
				t.Errorf("error is %v, want one: %t", err, test.waits)
			}
			if err := w.leftoversEnded(t.Context(), newPod("p", nil), c1); err != nil {
				t.Errorf("the target itself: %v", err) // Its manager waits.
			}
		})
	}
}

func TestAPodChaperonThatTookThePlaceOfAnotherLeavesThatOnesDelegate(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	c1.finds(true, nil)
	own := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	refused := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "no")
	w.Delegates.startWaiting(types.NamespacedName{}, "p", c1)
	w.Delegates.Seen(c1, newChaperon("c", "p", own))
	w.Delegates.Seen(c1, newChaperon("d", "p", refused)) // The cache listed anew.
	if err := w.leftoversEnded(t.Context(), newPod("p", nil), c2); err == nil {
		t.Error("the pod does not wait")
	}
}

func TestNothingIsCreatedWhileADelegateIsLeftOver(t *testing.T) {
	w := newWorld()
	created := 0
	c1 := w.engage(t, "c1", server{}.funcs())
	c2 := w.engage(t, "c2", server{create: func() error {
		created++
		return apierrors.NewForbidden(podChaperons, "web", errors.New("no"))
	}}.funcs())
	w.leave(c1, newChaperon("c", "p", toEnd))
	c1.finds(true, nil)
	err := w.place(t.Context(), newPod("p", nil), c2)
	if !errors.As(err, new(*LeftoverError)) || !strings.Contains(err.Error(), "in c1 was deleted") || created > 0 {
		t.Errorf("error is %v, and %d PodChaperons were created", err, created)
	}
	c1.finds(false, nil)
	if err := w.place(t.Context(), newPod("p", nil), c2); errors.As(err, new(*LeftoverError)) || created != 1 {
		t.Errorf("error is %v, and %d PodChaperons were created", err, created)
	}
}

// TestAPodChaperonThatLostItsLabelsIsDeleted has one that the target still has. The target's garbage collector ends its
// delegate only when it is deleted.
func TestAPodChaperonThatLostItsLabelsIsDeleted(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	hidden := newChaperon("c", "p", with(corev1.PodScheduled, corev1.ConditionTrue, "", ""))
	hidden.Labels, hidden.ResourceVersion = nil, ""
	if err := c1.Client.Create(t.Context(), hidden.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	c1.finds(true, nil)
	w.leave(c1, newChaperon("c", "p", with(corev1.PodScheduled, corev1.ConditionTrue, "", "")))
	if err := w.leftoversEnded(t.Context(), newPod("p", nil), c2); err == nil {
		t.Error("the pod does not wait")
	}
	if _, err := live(t.Context(), c1, hidden); !apierrors.IsNotFound(err) {
		t.Errorf("the PodChaperon was not deleted: %v", err)
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
			if known := w.Delegates.byProxy["p"]; known != nil && len(known.left) > 0 {
				t.Errorf("%v is left over", known.left)
			}
		})
	}
}

// TestATargetThatWasEngagedLaterIsAskedForADelegate has a pod that existed when its targets were engaged, after a
// change of the leader, say. Nobody saw its PodChaperon.
func TestATargetThatWasEngagedLaterIsAskedForADelegate(t *testing.T) {
	broken := errors.New("broken")
	forbidden := apierrors.NewForbidden(corev1.Resource("pods"), "web", errors.New("no right to read logs"))
	for name, test := range map[string]struct {
		runs    bool  // as the target says
		err     error // of the question
		happens func(w *world, c1 *Target, pod *corev1.Pod)
		waits   bool
	}{
		"it has the delegate":     {runs: true, waits: true},
		"it does not have it":     {},
		"it does not let us look": {err: forbidden},
		"it does not answer":      {err: broken},
		"its clock is ahead": {runs: true, waits: true, happens: func(w *world, _ *Target, pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(skew - 1))
		}},
		"the pod was created later": {runs: true, happens: func(w *world, _ *Target, pod *corev1.Pod) {
			pod.CreationTimestamp = metav1.NewTime(w.clock.Now().Add(skew))
		}},
		"it is lost": {runs: true, happens: func(w *world, c1 *Target, _ *corev1.Pod) {
			w.registry.Lose(c1.Target)
		}},
		"it is of another namespace": {runs: true, happens: func(_ *world, c1 *Target, _ *corev1.Pod) {
			c1.Key.Namespace = "other"
		}},
		"it shows the PodChaperon": {runs: true, happens: func(w *world, c1 *Target, _ *corev1.Pod) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
		}},
		"the PodChaperon goes before the pod is placed": {
			runs: true, waits: true, happens: func(w *world, c1 *Target, _ *corev1.Pod) {
				w.Delegates.Seen(c1, newChaperon("c", "p"))
				w.Delegates.Gone(c1, newChaperon("c", "p"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			c1.Since, c2.Since = w.clock.Now(), w.clock.Now()
			c1.finds(test.runs, test.err)
			if test.happens != nil {
				test.happens(w, c1, pod)
			}
			w.Delegates.startWaiting(types.NamespacedName{}, "p", c2)
			for range 2 { // Both attempts see the same.
				if err := w.ended(t.Context(), pod, c2, c1, c2); (err != nil) != test.waits {
					t.Errorf("error is %v, want one: %t", err, test.waits)
				}
			}
		})
	}
}

// ended returns nil if an attempt to place a pod in a target finds no delegate that is left over.
func (w *world) ended(ctx context.Context, pod *corev1.Pod, at *Target, engaged ...*Target) error {
	w.find(ctx, pod, engaged)
	return w.leftoversEnded(ctx, pod, at)
}

func TestATargetIsAskedOnceAndAnewWhenItIsEngagedAnew(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	c1.Since, c2.Since = w.clock.Now(), w.clock.Now()
	questions := 0
	count := func(context.Context, types.NamespacedName) (bool, error) { questions++; return false, nil }
	c1.FindsPod = count
	waiting := w.Delegates.startWaiting(types.NamespacedName{}, "p", c2)
	expect := func(what string, want int) {
		t.Helper()
		w.clock.Step(time.Second)
		if err := w.ended(t.Context(), pod, c2, c1, c2); err != nil || questions != want {
			t.Errorf("%s: %d questions, want %d; error %v", what, questions, want, err)
		}
	}
	expect("the first attempt", 1)
	w.Delegates.stopWaiting("p", waiting)
	expect("the next attempt", 1)
	w.Delegates.ForgetTarget(c1, nil)
	again := w.engage(t, "c1", server{}.funcs())
	again.FindsPod, again.Since = count, w.clock.Now()
	c1 = again
	expect("after the target was engaged anew", 2)
	w.Delegates.Concluded("p", ProxyBound)
	if len(w.Delegates.byProxy) > 0 {
		t.Errorf("when the proxy is bound, %d entries are left", len(w.Delegates.byProxy))
	}
}

// TestPodsDoNotWaitForASilentTargetByTurns has a target that was engaged a moment ago and does not answer.
func TestPodsDoNotWaitForASilentTargetByTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
		c1.Since, c2.Since = w.clock.Now(), w.clock.Now()
		c1.FindsPod = func(ctx context.Context, _ types.NamespacedName) (bool, error) {
			<-ctx.Done()
			return false, ctx.Err()
		}
		expect := func(proxy types.UID, wantWait time.Duration, wantLeftover bool) {
			t.Helper()
			began := time.Now()
			err := w.ended(t.Context(), newPod(proxy, nil), c2, c1, c2)
			if waited := time.Since(began); waited != wantWait {
				t.Errorf("pod %s waited for %s, want %s", proxy, waited, wantWait)
			}
			if leftover := err != nil; leftover != wantLeftover {
				t.Errorf("pod %s: error %v, want one: %t", proxy, err, wantLeftover)
			}
		}
		expect("p", answersWithin, false)
		c1.finds(true, nil)
		expect("q", 0, false)
		w.clock.Step(unaskedFor)
		expect("q", 0, true) // Its last attempt did not ask.
		c1.noteAnswer(false, w.clock.Now())
		c1.noteAnswer(true, w.clock.Now()) // Another question was answered meanwhile.
		expect("r", 0, true)
	})
}

// TestTheChosenTargetIsAskedToo has a pod that is not placed in the target that was chosen first.
func TestTheChosenTargetIsAskedToo(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	c1.Since, c2.Since = w.clock.Now(), w.clock.Now()
	c1.finds(true, nil)
	w.Delegates.startWaiting(types.NamespacedName{}, "p", c1)
	w.clock.Step(time.Second)
	if err := w.ended(t.Context(), pod, c1, c1, c2); err != nil {
		t.Errorf("the target itself: %v", err)
	}
	if err := w.ended(t.Context(), pod, c2, c1, c2); err == nil {
		t.Error("the pod does not wait before it is placed in another target")
	}
}

// TestAPodChaperonWithoutLabelsIsDeletedAfterAChangeOfTheLeader has one that no cache of the new leader shows. One of
// another pod stays, even if it has the name.
func TestAPodChaperonWithoutLabelsIsDeletedAfterAChangeOfTheLeader(t *testing.T) {
	for name, test := range map[string]struct {
		proxy types.UID
		stays bool
	}{
		"it is the pod's":     {proxy: "p"},
		"it is another pod's": {proxy: "q", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			c1.Since = w.clock.Now()
			c1.finds(true, nil)
			hidden := newChaperon("c", test.proxy)
			hidden.Name = translate.DelegateName(pod)
			if err := c1.Client.Create(t.Context(), hidden.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			w.Delegates.startWaiting(types.NamespacedName{}, "p", c2)
			if err := w.ended(t.Context(), pod, c2, c1, c2); err == nil {
				t.Error("the pod does not wait")
			}
			_, err := live(t.Context(), c1, hidden)
			if client.IgnoreNotFound(err) != nil || (err == nil) != test.stays {
				t.Errorf("the PodChaperon: %v; it stays: %t, want %t", err, err == nil, test.stays)
			}
		})
	}
}

// TestDelegatesAreLeftOverInSeveralTargets has one target whose delegate has ended, and one whose delegate runs.
func TestDelegatesAreLeftOverInSeveralTargets(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	c3 := w.engage(t, "c3", server{}.funcs())
	own := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	w.leave(c1, newChaperon("c", "p", own))
	w.leave(c3, newChaperon("d", "p", own))
	c1.finds(false, nil)
	c3.finds(true, nil)
	for range 2 {
		left := (*LeftoverError)(nil)
		if err := w.leftoversEnded(t.Context(), newPod("p", nil), c2); !errors.As(err, &left) || left.Target != "c3" {
			t.Errorf("error is %v, want one about c3", err)
		}
		if left := w.Delegates.leftovers("p", c2); len(left) != 1 {
			t.Errorf("%d delegates are left over, want that in c3", len(left))
		}
	}
}

// TestATargetThatIsDisengagedWhileItIsAskedHasNothingLeftOver has one that finds a delegate in this moment.
func TestATargetThatIsDisengagedWhileItIsAskedHasNothingLeftOver(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	c1, end := w.engageUntil(t, "c1")
	c2 := w.engage(t, "c2", server{}.funcs())
	c1.Since = w.clock.Now()
	c1.FindsPod = func(context.Context, types.NamespacedName) (bool, error) {
		end()
		w.Delegates.ForgetTarget(c1, nil)
		return true, nil
	}
	w.Delegates.startWaiting(types.NamespacedName{}, "p", c2)
	if err := w.ended(t.Context(), pod, c2, c1, c2); err != nil {
		t.Errorf("the pod waits for a target that is gone: %v", err)
	}
}
