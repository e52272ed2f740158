package scheduling

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// say writes the status of a PodChaperon.
func (f *fakeTarget) say(t *testing.T, chaperon *v1alpha1.PodChaperon, answer func(*v1alpha1.PodChaperon)) {
	t.Helper()
	before := chaperon.DeepCopy()
	after := chaperon.DeepCopy()
	answer(after)
	err := f.cluster.Client.Status().Patch(t.Context(), after, client.MergeFrom(before))
	if client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
		t.Errorf("answering %s: %v", chaperon.Name, err)
	}
}

// release a PodChaperon that is being deleted in the foreground: its delegate has ended.
func (f *fakeTarget) release(t *testing.T, chaperon *v1alpha1.PodChaperon) {
	t.Helper()
	after := chaperon.DeepCopy()
	if chaperon.DeletionTimestamp.IsZero() || !controllerutil.RemoveFinalizer(after, metav1.FinalizerDeleteDependents) {
		return
	}
	err := f.cluster.Client.Patch(t.Context(), after, client.MergeFrom(chaperon))
	if client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
		t.Errorf("releasing %s: %v", chaperon.Name, err)
	}
}

func running(chaperon *v1alpha1.PodChaperon) {
	chaperon.Status.Phase = corev1.PodPending
	chaperon.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
}

func unschedulable(chaperon *v1alpha1.PodChaperon) {
	chaperon.Status.Phase = corev1.PodPending
	chaperon.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node with a disk",
	}}
}

// swallowing is the same target behind a network that swallows requests; its cache stays as it was.
func swallowing(t *testing.T, target *engage.Target) *engage.Target {
	t.Helper()
	withWatch, err := client.NewWithWatch(target.Config, client.Options{Scheme: target.Client.Scheme()})
	must(t, err)
	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	swallower := interceptor.NewClient(withWatch, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return hang(ctx)
		},
		Create: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
			return hang(ctx)
		},
		Delete: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.DeleteOption) error {
			return hang(ctx)
		},
	})
	return &engage.Target{
		Key: target.Key, NodeName: target.NodeName, Hash: target.Hash, Config: target.Config,
		Client: swallower, APIReader: swallower, Cache: target.Cache,
	}
}
