package placement

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestPlace(t *testing.T) {
	timeout := apierrors.NewTimeoutError("slow", 0)
	unschedulable := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	stillUnschedulable := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "still full")
	refused := with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "quota")
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
			err:     "c1: not scheduled within 60s" + nobodyLooked,
			leftOut: "not scheduled within 60s" + nobodyLooked,
		},
		"the delegate is scheduled while it is withdrawn": {
			happens: changedSince(t, unschedulable, scheduled), held: true,
		},
		"a delegate that was refused is scheduled while it is withdrawn": {
			happens: changedSince(t, refused, scheduled), held: true,
		},
		"the delegate changes while it is withdrawn, and the target is given up all the same": {
			happens: changedSince(t, unschedulable, stillUnschedulable), ends: true,
			err: "c1: unschedulable: still full", leftOut: "unschedulable: still full",
		},
		"another PodChaperon takes the place of a delegate that is withdrawn": {
			happens: replacedSince(t, unschedulable), held: true,
			err: "withdrawing the delegate (unschedulable: full) from c1: another PodChaperon is in its place",
		},
		"the target cannot be asked to end the delegate": {
			server: server{ask: answering(timeout)}, happens: seen(unschedulable), held: true,
			err: "withdrawing the delegate (unschedulable: full) from c1: Timeout: slow",
		},
		"the delegate is refused": {
			happens: seen(refused), err: "c1: refused: quota", leftOut: "refused: quota",
		},
		"the target forbids it": {
			server:  server{create: answering(apierrors.NewForbidden(podChaperons, "web", errors.New("quota")))},
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
			server: server{create: answering(timeout)}, held: true,
			err: "creating the PodChaperon in c1: it may still be created: Timeout: slow",
		},
		"neither the creation nor the question after it is answered": {
			server: server{create: answering(timeout), get: answering(timeout)}, held: true,
			err: "creating the PodChaperon in c1: Timeout: slow, and looking whether it is there: Timeout: slow",
		},
		"another leader withdraws the delegate": {
			happens: seen(toEnd), err: "placing the delegate in c1: the delegate is being withdrawn", held: true,
		},
		"somebody deletes the PodChaperon": {
			happens: func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
				w.Delegates.Seen(at, chaperon)
				w.Delegates.Gone(at, chaperon)
			},
			err: "placing the delegate in c1: the PodChaperon was deleted",
		},
		"the target is out of reach for a moment": {
			happens: func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
				w.registry.Lapse(at.Target)
				w.Delegates.NotifyTarget(at.Target)
				eventually(t, "the pod waits on", func() bool { return w.waits.Load() > 1 })
				seen(scheduled)(w, at, chaperon)
			},
			held: true,
		},
		"the target is lost": {
			happens: func(w *world, at *Target, _ *v1alpha1.PodChaperon) {
				w.registry.Lose(at.Target)
				w.Delegates.NotifyTarget(at.Target)
			},
			err: "placing the delegate in c1: it is lost",
		},
		"an earlier target is back, where the delegate is scheduled": {
			happens: func(w *world, _ *Target, _ *v1alpha1.PodChaperon) {
				w.Delegates.Seen(w.engage(t, "c2", server{}.funcs()), newChaperon("d", "p", scheduled))
			},
			ends: true, err: "c1: the pod's delegate is scheduled in c2",
			leftOut: "the pod's delegate is scheduled in c2",
		},
		"the pod is deleted": {
			happens: func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
				w.Delegates.Concluded("p", ProxyGone)
				w.Delegates.Gone(at, chaperon)
			},
			err: "the pod was deleted or bound while it was placed",
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
					eventually(t, "the PodChaperon is withdrawn", func() bool {
						key := client.ObjectKeyFromObject(&chaperon.Items[0])
						return apierrors.IsNotFound(at.Client.Get(t.Context(), key, &v1alpha1.PodChaperon{}))
					})
					w.Delegates.Gone(at, &chaperon.Items[0])
				}
			}
			err := receive(t, "the outcome", done)
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

// TestAPodChaperonThatLostItsLabelsIsNotLeftBehind has a cache that selects by labels, which somebody takes off.
func TestAPodChaperonThatLostItsLabelsIsNotLeftBehind(t *testing.T) {
	for name, test := range map[string]struct {
		server server
		err    string
		stays  bool
	}{
		"it is deleted": {err: "placing the delegate in c1: the PodChaperon was deleted"},
		"the target does not let us delete it": {
			server: server{remove: answering(apierrors.NewUnauthorized("no label"))}, stays: true,
			err: "placing the delegate in c1: the PodChaperon was deleted, or somebody changed its labels, and it " +
				"cannot be deleted: no label",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			at := w.engage(t, "c1", test.server.funcs())
			at.Ledger.Update(summary(resources("8", "64Gi")))
			done := make(chan error, 1)
			go func() { done <- w.place(t.Context(), newPod("p", nil), at) }()
			eventually(t, "the pod waits", w.clock.HasWaiters)
			chaperons := &v1alpha1.PodChaperonList{}
			if err := at.Client.List(t.Context(), chaperons); err != nil {
				t.Fatal(err)
			}
			w.Delegates.Seen(at, &chaperons.Items[0])
			w.Delegates.Gone(at, &chaperons.Items[0])
			if err := <-done; message(err) != test.err {
				t.Errorf("error is %q, want %q", message(err), test.err)
			}
			key := client.ObjectKeyFromObject(&chaperons.Items[0])
			err := at.Client.Get(t.Context(), key, &v1alpha1.PodChaperon{})
			if apierrors.IsNotFound(err) == test.stays {
				t.Errorf("reading the PodChaperon: %v, want it there: %t", err, test.stays)
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

// changedSince is the PodChaperon in the cache, and a later state of it in the API server.
func changedSince(t *testing.T, cached, now func(*v1alpha1.PodChaperon)) func(*world, *Target, *v1alpha1.PodChaperon) {
	t.Helper()
	return func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
		later := chaperon.DeepCopy()
		now(later)
		if err := at.Client.Status().Update(t.Context(), later); err != nil {
			t.Error(err)
		}
		seen(cached)(w, at, chaperon)
	}
}

// replacedSince is the PodChaperon in the cache, and another one in its place in the API server.
func replacedSince(t *testing.T, cached func(*v1alpha1.PodChaperon)) func(*world, *Target, *v1alpha1.PodChaperon) {
	t.Helper()
	return func(w *world, at *Target, chaperon *v1alpha1.PodChaperon) {
		other := newChaperon("other", "p")
		other.Name = chaperon.Name
		if err := errors.Join(
			at.Client.Delete(t.Context(), chaperon.DeepCopy()), at.Client.Create(t.Context(), other),
		); err != nil {
			t.Error(err)
		}
		seen(cached)(w, at, chaperon)
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
	if err := receive(t, "the outcome", done); err != nil {
		t.Error(err)
	}
}

func TestTheDelegateIsLeftWhenTheLeaderChanges(t *testing.T) {
	w := newWorld()
	at := w.engage(t, "c1", server{}.funcs())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.place(ctx, newPod("p", nil), at) }()
	eventually(t, "the pod waits", w.clock.HasWaiters)
	cancel()
	if err := receive(t, "the outcome", done); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	left := &v1alpha1.PodChaperonList{}
	if err := at.Client.List(t.Context(), left); err != nil || len(left.Items) != 1 {
		t.Errorf("%d PodChaperons are left, error %v", len(left.Items), err)
	}
}
