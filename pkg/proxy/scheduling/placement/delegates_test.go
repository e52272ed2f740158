package placement

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// toEnd is a PodChaperon whose end somebody asked for.
func toEnd(chaperon *v1alpha1.PodChaperon) {
	metav1.SetMetaDataAnnotation(&chaperon.ObjectMeta, v1alpha1.AnnotationDeletionGracePeriod, "")
}

func TestHolder(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1, c2 *Target)
		want    string
	}{
		"nothing is known": {func(*world, *Target, *Target) {}, ""},
		"a PodChaperon": {
			func(w *world, _, c2 *Target) { w.Delegates.Seen(c2, newChaperon("c", "p")) }, "c2",
		},
		"a PodChaperon of another pod": {
			func(w *world, _, c2 *Target) { w.Delegates.Seen(c2, newChaperon("c", "q")) }, "",
		},
		"a PodChaperon that is being deleted": {
			func(w *world, _, c2 *Target) { w.Delegates.Seen(c2, newChaperon("c", "p", deleting)) }, "c2",
		},
		"a PodChaperon without a delegate that is being deleted": {func(w *world, _, c2 *Target) {
			gone := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, "")
			w.Delegates.Seen(c2, newChaperon("c", "p", deleting, gone))
		}, ""},
		"a PodChaperon whose end was asked for": {
			func(w *world, _, c2 *Target) { w.Delegates.Seen(c2, newChaperon("c", "p", toEnd)) }, "c2",
		},
		"a PodChaperon without a delegate whose end was asked for": {func(w *world, _, c2 *Target) {
			gone := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, "")
			w.Delegates.Seen(c2, newChaperon("c", "p", toEnd, gone))
		}, "c2"},
		"a scheduled PodChaperon, before one that is not": {func(w *world, c1, c2 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.Seen(c2, newChaperon("d", "p", inPhase(corev1.PodRunning)))
		}, "c2"},
		"PodChaperons in two targets": {func(w *world, c1, c2 *Target) {
			w.Delegates.Seen(c2, newChaperon("d", "p"))
			w.Delegates.Seen(c1, newChaperon("c", "p"))
		}, "c1"},
		"two targets that do not answer": {func(w *world, c1, c2 *Target) {
			w.Delegates.doubt("p", c2, false)
			w.Delegates.doubt("p", c1, false)
		}, "c1"},
		"a PodChaperon in a target that is out of reach for a moment": {func(w *world, _, c2 *Target) {
			w.Delegates.Seen(c2, newChaperon("c", "p"))
			w.registry.Lapse(c2.Target)
		}, "c2"},
		"a target that is out of reach before it answers": {func(w *world, c1, _ *Target) {
			w.Delegates.doubt("p", c1, false)
			w.registry.Lapse(c1.Target)
		}, "c1"},
		"a PodChaperon in a target that is lost": {func(w *world, _, c2 *Target) {
			w.Delegates.Seen(c2, newChaperon("c", "p"))
			w.registry.Lose(c2.Target)
		}, ""},
		"a PodChaperon that we deleted, although the cache still shows it": {func(w *world, c1, _ *Target) {
			w.Delegates.setWithdrawn("p", "c", true)
			w.Delegates.Seen(c1, newChaperon("c", "p"))
		}, ""},
		"a PodChaperon that we deleted, and whose end was asked for": {func(w *world, c1, _ *Target) {
			w.Delegates.setWithdrawn("p", "c", true)
			w.Delegates.Seen(c1, newChaperon("c", "p", toEnd))
		}, ""},
		"a PodChaperon made after one that we deleted": {func(w *world, c1, _ *Target) {
			w.Delegates.setWithdrawn("p", "c", true)
			w.Delegates.Gone(c1, newChaperon("c", "p"))
			w.Delegates.Seen(c1, newChaperon("d", "p"))
		}, "c1"},
		"a target that does not answer": {
			func(w *world, c1, _ *Target) { w.Delegates.doubt("p", c1, false) }, "c1",
		},
		"a target that has been disengaged": {func(w *world, c1, c2 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.doubt("p", c2, false)
			w.Delegates.ForgetTarget(c1, nil)
			w.Delegates.ForgetTarget(c2, nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			test.happens(w, c1, c2)
			got := ""
			if holder := w.Delegates.Holder("p"); holder != nil {
				got = holder.Name()
				w.registry.Lose(holder.Target)
				if !w.Delegates.MayHold(holder, "p") {
					t.Errorf("a pod that %s holds does not hear that it is lost", got)
				}
			}
			if got != test.want {
				t.Errorf("held by %q, want %q", got, test.want)
			}
			for _, c := range []types.UID{"c", "d"} {
				w.Delegates.Gone(c1, newChaperon(c, "p"))
				w.Delegates.Gone(c2, newChaperon(c, "p"))
				w.Delegates.Gone(c2, newChaperon(c, "q"))
			}
			w.Delegates.Concluded("p", ProxyGone)
			if w.Delegates.MayHold(c1, "p") || w.Delegates.MayHold(c2, "p") {
				t.Error("when all is gone, a target may hold the pod")
			}
			if len(w.Delegates.byProxy) > 0 {
				t.Errorf("when all is gone, %d entries are left", len(w.Delegates.byProxy))
			}
		})
	}
}

func TestAnotherDelegateCountsWhileItsTargetIsReachable(t *testing.T) {
	running := inPhase(corev1.PodRunning)
	away := func(w *world, other *Target) { w.registry.Lapse(other.Target) }
	for name, test := range map[string]struct {
		other   *v1alpha1.PodChaperon // in the other target
		happens func(w *world, other *Target)
		refused bool // whether this target is given up
		deleted bool // whether the other delegate is discarded
	}{
		"it is scheduled": {other: newChaperon("d", "p", running), refused: true},
		"it is scheduled, and its target is out of reach": {
			other: newChaperon("d", "p", running), happens: away, refused: true,
		},
		"it is scheduled, and its target is lost": {
			other:   newChaperon("d", "p", running),
			happens: func(w *world, other *Target) { w.registry.Lose(other.Target) },
		},
		"it waits": {other: newChaperon("d", "p"), deleted: true},
		"it waits, and its target is out of reach": {other: newChaperon("d", "p"), happens: away},
		"it is another pod's":                      {other: newChaperon("d", "q", running)},
		"it is being deleted":                      {other: newChaperon("d", "p", running, deleting)},
		"its end was asked for":                    {other: newChaperon("d", "p", running, toEnd)},
		"it is withdrawn": {other: newChaperon("d", "p"), happens: func(w *world, _ *Target) {
			w.Delegates.setWithdrawn("p", "d", true)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at, other := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
			stored := newChaperon("d", "p")
			if err := other.Client.Create(t.Context(), stored); err != nil {
				t.Fatal(err)
			}
			test.other.ResourceVersion = stored.ResourceVersion
			w.Delegates.Seen(other, test.other)
			if test.happens != nil {
				test.happens(w, other)
			}
			refusal := w.scheduledElsewhere(t.Context(), "p", at)
			if refused := refusal != nil; refused != test.refused {
				t.Errorf("the refusal is %v, want one: %t", refusal, test.refused)
			}
			err := other.Client.Get(t.Context(), client.ObjectKeyFromObject(stored), stored)
			if deleted := apierrors.IsNotFound(err); deleted != test.deleted {
				t.Errorf("the other delegate is discarded: %t, want %t", deleted, test.deleted)
			}
		})
	}
}

func TestADelegateThatWaitsElsewhereIsDiscarded(t *testing.T) {
	w := newWorld()
	at, earlier := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", server{}.funcs())
	done := make(chan error, 1)
	go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	left := newChaperon("d", "p")
	if err := earlier.Client.Create(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	w.Delegates.Seen(earlier, left)
	eventually(t, "it is deleted", func() bool {
		return apierrors.IsNotFound(
			earlier.Client.Get(t.Context(), client.ObjectKeyFromObject(left), &v1alpha1.PodChaperon{}),
		)
	})
	w.Delegates.Gone(earlier, left)
	w.Delegates.Seen(at, newChaperon("c", "p", inPhase(corev1.PodRunning)))
	if err := receive(t, "the outcome", done); err != nil {
		t.Error(err)
	}
}
