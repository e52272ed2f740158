package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// withdrawn is a PodChaperon whose delegate is to end unless it has a node.
func withdrawn(options ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	c := newChaperon("c", "p")
	metav1.SetMetaDataAnnotation(&c.ObjectMeta, v1alpha1.AnnotationWithdrawn, "")
	for _, option := range options {
		option(c)
	}
	return c
}

// onNode shows that the delegate has a node.
func onNode(c *v1alpha1.PodChaperon) {
	with(corev1.PodScheduled, corev1.ConditionTrue, "", "")(c)
}

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
		"the delegate ends while the target is out of reach for a moment": {func(w *world, at *Target, _ func()) {
			w.registry.Lapse(at.Target)
			w.clock.Step(time.Minute)
			eventually(t, "the pod still waits", w.clock.HasWaiters)
			w.Delegates.Gone(at, newChaperon("c", "p"))
		}, "c1: unschedulable: full"},
		"the delegate gets a node before it ends": {
			func(w *world, at *Target, _ func()) { w.Delegates.Seen(at, withdrawn(onNode)) }, "",
		},
		"the delegate gets a node and the cache does not show it": {func(w *world, at *Target, _ func()) {
			all := &v1alpha1.PodChaperonList{}
			if err := at.Client.List(t.Context(), all); err != nil || len(all.Items) != 1 {
				t.Fatalf("%d PodChaperons, %v", len(all.Items), err)
			}
			there := &all.Items[0]
			metav1.SetMetaDataAnnotation(&there.ObjectMeta, v1alpha1.AnnotationWithdrawn, "")
			if err := at.Client.Update(t.Context(), there); err != nil {
				t.Fatal(err)
			}
			onNode(there)
			if err := at.Client.Status().Update(t.Context(), there); err != nil {
				t.Fatal(err)
			}
			w.clock.Step(time.Minute)
		}, "withdrawing the delegate (unschedulable: full) from c1: it has got a node"},
		"the target is lost": {func(w *world, at *Target, _ func()) {
			w.registry.Lose(at.Target)
			w.clock.Step(time.Minute)
		}, "withdrawing the delegate (unschedulable: full) from c1: it is lost"},
		"the target is disengaged": {func(_ *world, _ *Target, disengage func()) { disengage() },
			"withdrawing the delegate (unschedulable: full) from c1: it was disconnected"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			asked := make(chan string, 1)
			at := w.engage(t, "c1", lingering(asked))
			engagement, disengage := context.WithCancel(t.Context())
			at.engagement = engagement
			at.SetSpares(true)
			done := make(chan error, 1)
			go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
			eventually(t, "the pod waits", w.clock.HasWaiters)
			w.Delegates.Seen(at, newChaperon("c", "p", func(chaperon *v1alpha1.PodChaperon) {
				chaperon.Name = translate.DelegateName(newPod("p", nil))
			}, with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")))
			want := `{"metadata":{"annotations":{"multicluster.admiralty.io/withdrawn":""},` +
				`"resourceVersion":"","uid":"c"}}`
			if diff := cmp.Diff(want, receive(t, "the request to end", asked)); diff != "" {
				t.Errorf("the request to end the delegate (-want +got):\n%s", diff)
			}
			eventually(t, "the pod waits for the end", w.clock.HasWaiters)
			test.happens(w, at, disengage)
			if got := message(receive(t, "the outcome", done)); got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
		})
	}
}

func TestWhichWithdrawnDelegatesAreSpared(t *testing.T) {
	for name, test := range map[string]struct {
		now  *v1alpha1.PodChaperon
		want bool
	}{
		"it has got a node":                            {withdrawn(onNode), true},
		"it has no node":                               {withdrawn(), false},
		"it had a node before it was withdrawn":        {newChaperon("c", "p", onNode), false},
		"it has got a node, and somebody deletes it":   {withdrawn(onNode, lost), false},
		"it has got a node, and its end was asked for": {withdrawn(onNode, toEnd), false},
	} {
		if got := spared(test.now); got != test.want {
			t.Errorf("%s: spared: %t", name, got)
		}
	}
}

func lost(c *v1alpha1.PodChaperon) {
	with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateTerminating, "")(c)
}

// lingering is a server whose PodChaperons are deleted some time after the target's manager is asked to. Whoever
// deletes one without asking the manager is told that it is another one.
func lingering(asked chan<- string) interceptor.Funcs {
	funcs := server{remove: answering(apierrors.NewConflict(podChaperons, "web", errors.New("deleted")))}.funcs()
	funcs.Patch = func(
		_ context.Context, _ client.WithWatch, o client.Object, patch client.Patch, _ ...client.PatchOption,
	) error {
		data, err := patch.Data(o)
		asked <- string(data)
		return err
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
			_, got, err := deletedUnseen(t.Context(), at, seen)
			if got != test.want || (err != nil) != (test.get != nil) {
				t.Errorf("got %t, want %t; error %v", got, test.want, err)
			}
		})
	}
}

func TestARefusalSaysWhetherThereWasMoreRoomDuringTheWithdrawal(t *testing.T) {
	w := newWorld()
	asked := make(chan string, 1)
	at := w.engage(t, "c1", lingering(asked))
	done := make(chan error, 1)
	go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	full := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	seen(full)(w, at, newChaperon("c", "p"))
	receive(t, "the request to end", asked)
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

// TestATargetHoldsThePodChaperonThatItsCacheDoesNotShow has a placement that ends while the cache lags.
func TestATargetHoldsThePodChaperonThatItsCacheDoesNotShow(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, at *Target)
		held    bool
	}{
		"the cache still lags": {happens: func(*world, *Target) {}, held: true},
		"the cache shows the PodChaperon": {
			func(w *world, at *Target) { w.Delegates.Seen(at, newChaperon("c", "p")) }, true,
		},
		"the cache shows that the PodChaperon is gone": {
			func(w *world, at *Target) { w.Delegates.Gone(at, newChaperon("c", "p")) }, false,
		},
		"the cache shows the end of another one": {
			func(w *world, at *Target) { w.Delegates.Gone(at, newChaperon("before", "p")) }, true,
		},
		"the pod is deleted": {
			func(w *world, _ *Target) { w.Delegates.Concluded("p", ProxyGone) }, false,
		},
		"the target is lost": {func(w *world, at *Target) { w.registry.Lose(at.Target) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", server{ask: answering(apierrors.NewTimeoutError("slow", 0))}.funcs())
			done := make(chan error, 1)
			go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
			eventually(t, "the pod waits", w.clock.HasWaiters)
			w.clock.Step(time.Minute)
			if err := receive(t, "the outcome", done); err == nil || errors.As(err, new(*RefusedError)) {
				t.Fatalf("error is %v, want another one than a refusal", err)
			}
			test.happens(w, at)
			if got := w.Delegates.Holder("p") == at; got != test.held {
				t.Errorf("the target holds the pod: %t, want %t", got, test.held)
			}
		})
	}
}
