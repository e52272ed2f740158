package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestNoOtherTargetIsTriedUntilAWithdrawnDelegateHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, at *Target, disengage func())
		err     string
	}{
		"the delegate ends": {
			func(w *world, at *Target, _ func()) { w.Delegates.Gone(at, newChaperon("c", "p")) },
			"c1: unschedulable: full",
		},
		"the delegate ends after another time-out": {func(w *world, at *Target, _ func()) {
			w.clock.Step(time.Minute)
			eventually(t, "the pod still waits", w.clock.HasWaiters)
			w.Delegates.Gone(at, newChaperon("c", "p"))
		}, "c1: unschedulable: full"},
		"the delegate ends and the cache does not show it": {func(w *world, at *Target, _ func()) {
			all := client.InNamespace("default")
			if err := at.Client.DeleteAllOf(t.Context(), &v1alpha1.PodChaperon{}, all); err != nil {
				t.Error(err)
			}
			w.clock.Step(time.Minute)
		}, "c1: unschedulable: full"},
		"the pod is deleted": {
			func(w *world, _ *Target, _ func()) { w.Delegates.Concluded("p", ProxyGone) },
			"the pod was deleted or bound while it was placed",
		},
		"the target goes out of reach": {func(w *world, at *Target, _ func()) {
			w.registry.Lose(at.Target)
			w.clock.Step(time.Minute)
		}, "withdrawing the delegate (unschedulable: full) from c1: it is not reachable any more"},
		"the target is disengaged": {func(_ *world, _ *Target, disengage func()) { disengage() },
			"withdrawing the delegate (unschedulable: full) from c1: it was disconnected"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			policy := make(chan metav1.DeletionPropagation, 1)
			at := w.engage(t, "c1", lingering(policy))
			disengaged := make(chan struct{})
			at.disengaged = disengaged
			done := make(chan error, 1)
			go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
			eventually(t, "the pod waits", w.clock.HasWaiters)
			w.Delegates.Seen(at, newChaperon("c", "p", func(chaperon *v1alpha1.PodChaperon) {
				chaperon.Name = translate.DelegateName(newPod("p", nil))
			}, with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")))
			if got := receive(t, "the deletion", policy); got != metav1.DeletePropagationForeground {
				t.Errorf("deleted in the %s, want the foreground", got)
			}
			eventually(t, "the pod waits for the end", w.clock.HasWaiters)
			test.happens(w, at, func() { close(disengaged) })
			if got := message(receive(t, "the outcome", done)); got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
		})
	}
}

// lingering is a server whose PodChaperons are deleted some time after they should be.
func lingering(policy chan<- metav1.DeletionPropagation) interceptor.Funcs {
	funcs := server{}.funcs()
	funcs.Delete = func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
		policy <- *(&client.DeleteOptions{}).ApplyOptions(options).PropagationPolicy
		return nil
	}
	return funcs
}

func TestAWithdrawnDelegateHasEndedOnlyIfTheAPIServerSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		there *v1alpha1.PodChaperon // in the API server
		get   func() error
		want  bool
	}{
		"the PodChaperon is gone":           {want: true},
		"the PodChaperon is there":          {there: newChaperon("c", "p")},
		"another one is in its place":       {there: newChaperon("d", "p"), want: true},
		"the API server does not answer":    {get: answering(apierrors.NewTimeoutError("slow", 0))},
		"the API server does not let us in": {get: answering(apierrors.NewUnauthorized("expired"))},
	} {
		t.Run(name, func(t *testing.T) {
			at := newWorld().engage(t, "c1", server{get: test.get}.funcs())
			seen := newChaperon("c", "p")
			if test.there != nil {
				test.there.Name = seen.Name
				if err := at.Client.Create(t.Context(), test.there); err != nil {
					t.Fatal(err)
				}
			}
			if got := deletedUnseen(t.Context(), at, seen); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestARefusalSaysWhetherThereWasMoreRoomDuringTheWithdrawal(t *testing.T) {
	w := newWorld()
	policy := make(chan metav1.DeletionPropagation, 1)
	at := w.engage(t, "c1", lingering(policy))
	done := make(chan error, 1)
	go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	full := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	seen(full)(w, at, newChaperon("c", "p"))
	receive(t, "the deletion", policy)
	at.Ledger.Update(summary(resources("60", "64Gi")))
	w.Delegates.Gone(at, newChaperon("c", "p"))
	var refused *RefusedError
	if err := receive(t, "the outcome", done); !errors.As(err, &refused) || err.Error() != "c1: unschedulable: full" {
		t.Fatalf("error is %v", err)
	}
	if !refused.MoreRoom {
		t.Error("the refusal does not say that there has been more room since")
	}
}
