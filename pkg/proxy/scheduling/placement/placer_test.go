package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// server is an API server's part in a placement; a nil function is the fake's own behaviour.
type server struct {
	create, get, remove func() error
	// late is what the server reads after the cache has seen the PodChaperon.
	late func(*v1alpha1.PodChaperon)
}

func (s server) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetUID("c")
			if s.create != nil {
				if err := s.create(); err != nil {
					return err
				}
			}
			return c.Create(ctx, o, options...)
		},
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if s.get != nil {
				if err := s.get(); err != nil {
					return err
				}
			}
			err := c.Get(ctx, key, o, options...)
			if chaperon, ok := o.(*v1alpha1.PodChaperon); ok && err == nil && s.late != nil {
				s.late(chaperon)
			}
			return err
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			if s.remove != nil {
				if err := s.remove(); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o)
		},
	}
}

func answering(err error) func() error { return func() error { return err } }

func TestPlace(t *testing.T) {
	resource := schema.GroupResource{Resource: "podchaperons"}
	timeout := apierrors.NewTimeoutError("slow", 0)
	conflict := apierrors.NewConflict(resource, "c", errors.New("changed"))
	unschedulable := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	scheduled := with(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	for name, test := range map[string]struct {
		server server
		// happens after the PodChaperon is created.
		happens func(w *world, at *Target, chaperon *v1alpha1.PodChaperon)
		// ends says that the delegate then ends, and with it the PodChaperon.
		ends bool
		err  string
		// leftOut is the reason for which the target is to be left out.
		leftOut string
		// held says that the pod is kept to the target.
		held bool
	}{
		"the delegate is scheduled": {happens: seen(scheduled), held: true},
		"the delegate is unschedulable": {
			happens: seen(unschedulable), ends: true, err: "c1: unschedulable: full", leftOut: "unschedulable: full",
		},
		"the target is silent": {
			happens: overdueNow, ends: true,
			err:     "c1: not scheduled within 60s: the target has not created the delegate",
			leftOut: "not scheduled within 60s: the target has not created the delegate",
		},
		"the delegate is scheduled while it is withdrawn": {
			server: server{remove: answering(conflict), late: scheduled}, happens: seen(unschedulable), held: true,
		},
		"a refused delegate cannot be deleted": {
			server: server{remove: answering(timeout)}, happens: seen(unschedulable), held: true,
			err: "withdrawing the delegate (unschedulable: full) from c1: Timeout: slow",
		},
		"the delegate is refused": {
			happens: seen(
				with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "quota"),
			),
			err: "c1: refused: quota", leftOut: "refused: quota",
		},
		"the target forbids it": {
			server:  server{create: answering(apierrors.NewForbidden(resource, "web", errors.New("quota")))},
			err:     `c1: refused: podchaperons "web" is forbidden: quota`,
			leftOut: `refused: podchaperons "web" is forbidden: quota`,
		},
		"the target's API server is busy": {
			server: server{create: answering(apierrors.NewTooManyRequests("slow down", 1))},
			err:    "creating the PodChaperon in c1: slow down",
		},
		"the target does not accept the credentials": {
			server: server{create: answering(apierrors.NewUnauthorized("expired"))},
			err:    "creating the PodChaperon in c1: expired",
		},
		"the creation is not answered and did not happen": {
			server: server{create: answering(timeout)}, err: "c1: creating the PodChaperon: Timeout: slow",
			leftOut: "creating the PodChaperon: Timeout: slow",
		},
		"neither the creation nor the question after it is answered": {
			server: server{create: answering(timeout), get: answering(timeout)}, held: true,
			err: "creating the PodChaperon in c1 (Timeout: slow), and looking whether it is there: Timeout: slow",
		},
		"somebody deletes the PodChaperon": {
			happens: func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
				w.Delegates.Seen(at, chaperon)
				w.Delegates.Gone(at, chaperon)
			},
			err: "placing the delegate in c1: the PodChaperon was deleted",
		},
		"the target goes out of reach": {
			happens: func(w *world, at *Target, _ *v1alpha1.PodChaperon) {
				w.registry.Lose(at.Target)
				w.Delegates.NotifyTarget(at.Target)
			},
			err: "placing the delegate in c1: it is not reachable any more",
		},
		"an earlier target is back, where the delegate is scheduled": {
			happens: func(w *world, _ *Target, _ *v1alpha1.PodChaperon) {
				w.Delegates.Seen(w.engage(t, "c2", server{}.funcs()), newChaperon("d", "p", scheduled))
			},
			ends: true, err: "c1: the pod's delegate is scheduled in c2",
			leftOut: "the pod's delegate is scheduled in c2",
		},
		"the pod is deleted": {
			happens: func(w *world, _ *Target, _ *v1alpha1.PodChaperon) { w.Delegates.Concluded("p", ProxyGone) },
			err:     "the pod was deleted or bound while it was placed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", test.server.funcs())
			at.Ledger.Update(summary(resources("8", "64Gi"))) // More room than before, but not since the refusal.
			done := make(chan error, 1)
			go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
			if test.happens != nil {
				eventually(t, "the pod waits", w.clock.HasWaiters)
				chaperon := &v1alpha1.PodChaperonList{}
				if err := at.Client.List(t.Context(), chaperon); err != nil {
					t.Fatal(err)
				}
				test.happens(w, at, &chaperon.Items[0])
				if test.ends {
					eventually(t, "the PodChaperon is deleted", func() bool {
						key := client.ObjectKeyFromObject(&chaperon.Items[0])
						return apierrors.IsNotFound(at.Client.Get(t.Context(), key, &v1alpha1.PodChaperon{}))
					})
					w.Delegates.Gone(at, &chaperon.Items[0])
				}
			}
			err := <-done
			if got := message(err); got != test.err {
				t.Errorf("error is %q, want %q", got, test.err)
			}
			if refused := (*RefusedError)(nil); errors.As(err, &refused) && refused.MoreRoom {
				t.Error("the refusal says that there has been more room since")
			}
			if got := reasonOfRefusal(err); got != test.leftOut {
				t.Errorf("the target refused because %q, want %q", got, test.leftOut)
			}
			if holder := w.Delegates.Holder("p"); (holder == at) != test.held {
				t.Errorf("the pod is held there: %t", !test.held)
			}
		})
	}
}

// seen is the PodChaperon in the cache.
func seen(change func(*v1alpha1.PodChaperon)) func(*world, *Target, *v1alpha1.PodChaperon) {
	return func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
		change(chaperon)
		w.Delegates.Seen(at, chaperon)
	}
}

func overdueNow(w *world, _ *Target, _ *v1alpha1.PodChaperon) { w.clock.Step(time.Minute) }

func reasonOfRefusal(err error) string {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestACreationThatHappenedIsGoneOnWith(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetUID("c")
			if err := c.Create(ctx, o, options...); err != nil {
				return err
			}
			return apierrors.NewTimeoutError("slow", 0)
		},
	})
	done := make(chan error, 1)
	go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	w.Delegates.Seen(at, newChaperon("c", "p", inPhase(corev1.PodRunning)))
	if err := <-done; err != nil {
		t.Error(err)
	}
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
		"the pod is deleted": {func(w *world, _ *Target, _ func()) { w.Delegates.Concluded("p", ProxyGone) },
			"the pod was deleted or bound while it was placed"},
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
			if got := <-policy; got != metav1.DeletePropagationForeground {
				t.Errorf("deleted in the %s, want the foreground", got)
			}
			eventually(t, "the pod waits for the end", w.clock.HasWaiters)
			test.happens(w, at, func() { close(disengaged) })
			if got := message(<-done); got != test.err {
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

func TestTheDelegateIsLeftWhenTheLeaderChanges(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", server{}.funcs())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.place(ctx, newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	left := &v1alpha1.PodChaperonList{}
	if err := at.Client.List(t.Context(), left); err != nil || len(left.Items) != 1 {
		t.Errorf("%d PodChaperons are left, error %v", len(left.Items), err)
	}
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
		"a scheduled PodChaperon, before one that is not": {func(w *world, c1, c2 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.Seen(c2, newChaperon("d", "p", inPhase(corev1.PodRunning)))
		}, "c2"},
		"a PodChaperon in a target that is not reachable": {func(w *world, _, c2 *Target) {
			w.Delegates.Seen(c2, newChaperon("c", "p"))
			w.registry.Lose(c2.Target)
		}, ""},
		"a PodChaperon that we deleted, although the cache still shows it": {func(w *world, c1, _ *Target) {
			w.Delegates.setWithdrawn("p", "c", true)
			w.Delegates.Seen(c1, newChaperon("c", "p"))
		}, ""},
		"a PodChaperon made after one that we deleted": {func(w *world, c1, _ *Target) {
			w.Delegates.setWithdrawn("p", "c", true)
			w.Delegates.Gone(c1, newChaperon("c", "p"))
			w.Delegates.Seen(c1, newChaperon("d", "p"))
		}, "c1"},
		"a target that does not answer": {
			func(w *world, c1, _ *Target) { w.Delegates.setUncertain("p", c1, true) }, "c1",
		},
		"a target that has been disengaged": {func(w *world, c1, c2 *Target) {
			w.Delegates.Seen(c1, newChaperon("c", "p"))
			w.Delegates.setUncertain("p", c2, true)
			w.Delegates.ForgetTarget(c1)
			w.Delegates.ForgetTarget(c2)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			test.happens(w, c1, c2)
			got := ""
			if holder := w.Delegates.Holder("p"); holder != nil {
				got = holder.Name()
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
			if len(w.Delegates.byProxy) > 0 {
				t.Errorf("when all is gone, %d entries are left", len(w.Delegates.byProxy))
			}
		})
	}
}

func TestADelegateThatWaitsElsewhereIsDiscarded(t *testing.T) {
	w := newWorld()
	at, earlier := w.engage(t, "c1", server{}.funcs()), w.engage(t, "c2", interceptor.Funcs{})
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
	if err := <-done; err != nil {
		t.Error(err)
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
	<-policy
	at.Ledger.Update(summary(resources("60", "64Gi")))
	w.Delegates.Gone(at, newChaperon("c", "p"))
	var refused *RefusedError
	if err := <-done; !errors.As(err, &refused) || err.Error() != "c1: unschedulable: full" {
		t.Fatalf("error is %v", err)
	}
	if !refused.MoreRoom {
		t.Error("the refusal does not say that there has been more room since")
	}
}
