package scheduling

import (
	"context"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// playedTarget is a target. The test plays its chaperon controller.
type playedTarget struct {
	*env.Target

	// answer is called with each PodChaperon that is created; nil as long as the target is silent.
	answer  atomic.Pointer[func(*v1alpha1.PodChaperon)]
	created atomic.Int32
	// slow delegates do not end before release.
	slow atomic.Bool
}

func newTarget(name string, cluster *env.Cluster) *playedTarget {
	target := &playedTarget{Target: env.NewTarget(cluster, types.NamespacedName{Name: name})}
	target.Cached, target.Source = true, source
	return target
}

// engage engages the target, anew if it is engaged, and plays it from then on.
func (p *playedTarget) engage(t *testing.T, registry *engage.Registry) {
	t.Helper()
	p.Engage(t, registry)
	informer, err := p.Cache.GetInformer(t.Context(), &v1alpha1.PodChaperon{})
	env.Must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) {
		p.created.Add(1)
		if answer := p.answer.Load(); *answer != nil {
			p.write(t, o.(*v1alpha1.PodChaperon), *answer)
		}
	}, UpdateFunc: func(_, o any) {
		if !p.slow.Load() {
			p.release(t, o.(*v1alpha1.PodChaperon))
		}
	}})
	env.Must(t, err)
}

// write writes the status of a PodChaperon.
func (p *playedTarget) write(t *testing.T, chaperon *v1alpha1.PodChaperon, answer func(*v1alpha1.PodChaperon)) {
	t.Helper()
	after := chaperon.DeepCopy()
	answer(after)
	err := p.Cluster.Client.Status().Patch(t.Context(), after, client.MergeFrom(chaperon.DeepCopy()))
	if client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
		t.Errorf("answering %s: %v", chaperon.Name, err)
	}
}

// release deletes a PodChaperon whose end was asked for: its delegate has ended.
func (p *playedTarget) release(t *testing.T, chaperon *v1alpha1.PodChaperon) {
	t.Helper()
	if !asked(chaperon) {
		return
	}
	err := p.Cluster.Client.Delete(t.Context(), chaperon.DeepCopy(), client.Preconditions{UID: &chaperon.UID})
	if client.IgnoreNotFound(err) != nil && t.Context().Err() == nil {
		t.Errorf("releasing %s: %v", chaperon.Name, err)
	}
}

// asked says whether the target's manager was asked to end the delegate.
func asked(chaperon *v1alpha1.PodChaperon) bool {
	_, asked := chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
	return asked
}

// running is the answer of a target that has scheduled the delegate.
func running(chaperon *v1alpha1.PodChaperon) {
	chaperon.Status.Phase = corev1.PodPending
	chaperon.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
}

// unschedulable is the answer of a target without a node for the delegate.
func unschedulable(chaperon *v1alpha1.PodChaperon) {
	chaperon.Status.Phase = corev1.PodPending
	unscheduled(chaperon, corev1.PodReasonUnschedulable, "no node with a disk")
}

// preempting is the answer of a target that evicts other pods for the delegate.
func preempting(chaperon *v1alpha1.PodChaperon) {
	unschedulable(chaperon)
	chaperon.Status.NominatedNodeName = "n"
}

// gated is the answer of a target that holds the delegate back.
func gated(chaperon *v1alpha1.PodChaperon) {
	unscheduled(chaperon, corev1.PodReasonSchedulingGated, "")
}

func unscheduled(chaperon *v1alpha1.PodChaperon, reason, message string) {
	chaperon.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message,
	}}
}

// swallow puts a network that swallows requests before the target from the next engagement on. Its cache works.
func (p *playedTarget) swallow() {
	p.Customize = func(e *engage.Target) {
		c := &swallower{e.Client}
		e.Client, e.APIReader = c, c
	}
}

// swallower is the client of a network that swallows requests.
type swallower struct{ client.Client }

func (*swallower) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return hang(ctx)
}

func (*swallower) Create(ctx context.Context, _ client.Object, _ ...client.CreateOption) error {
	return hang(ctx)
}

func (*swallower) Patch(ctx context.Context, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
	return hang(ctx)
}

func (*swallower) Delete(ctx context.Context, _ client.Object, _ ...client.DeleteOption) error {
	return hang(ctx)
}

func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}
