package feedback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// lookAtLost is how often the proxies of a lost target are looked at.
const lookAtLost = 10 * time.Second

// registerFenced adds the controller that confirms the end of proxies in lost targets.
func (f *Feedback) registerFenced(mgr manager.Manager) error {
	if f.options.LastRenewal == nil {
		return nil
	}
	err := builder.ControllerManagedBy(mgr).
		Named("feedback-fenced").
		Watches(&v1alpha1.ClusterTarget{}, &handler.EnqueueRequestForObject{}).
		Watches(&v1alpha1.Target{}, &handler.EnqueueRequestForObject{}).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lookAtLost),
		}).
		Complete(reconcile.Func(f.ReconcileLost))
	if err != nil {
		return fmt.Errorf("building the controller of lost targets: %w", err)
	}
	return nil
}

// ReconcileLost confirms the end of the terminating proxies of a target that is lost, once their delegates have surely
// been fenced. So the next pod of a StatefulSet starts elsewhere.
func (f *Feedback) ReconcileLost(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := targetkind.New(request.NamespacedName)
	if err := f.options.Client.Get(ctx, request.NamespacedName, target); err != nil {
		f.doubts.Delete(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !f.isLost(request.NamespacedName, targetkind.Status(target)) {
		f.doubts.Delete(request.NamespacedName)
		return reconcile.Result{}, nil // A change of its status is an event.
	}
	proxies, err := f.fencedOn(ctx, translate.VirtualNodeName(request.NamespacedName))
	if err != nil {
		return reconcile.Result{}, err
	}
	if doubt := f.doubt(request.NamespacedName, targetkind.Status(target)); doubt != "" {
		if len(proxies) > 0 {
			f.warnOfDoubt(target, doubt)
		}
		return reconcile.Result{}, nil // As above.
	}
	if err := f.confirmAll(ctx, target, proxies); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: lookAtLost}, nil
}

// confirmAll confirms the end of those of the fenced proxies in a lost target whose delegates have surely been fenced.
func (f *Feedback) confirmAll(ctx context.Context, target client.Object, proxies []*corev1.Pod) error {
	heard := f.options.LastRenewal(client.ObjectKeyFromObject(target), targetkind.Status(target).ClusterID)
	if heard.IsZero() {
		return nil
	}
	silent := f.options.Clock.Since(heard)
	var errs []error
	for _, proxy := range proxies {
		if surelyFenced(proxy, silent) {
			errs = append(errs, f.confirmFenced(ctx, proxy))
		}
	}
	if len(proxies) > 0 {
		f.warnOfSibling(target)
	}
	return errors.Join(errs...)
}

// fencedOn lists the proxies on a node that its target fences.
func (f *Feedback) fencedOn(ctx context.Context, node string) ([]*corev1.Pod, error) {
	proxies, err := f.options.Proxies.List(ctx, node)
	if err != nil {
		return nil, err
	}
	var fenced []*corev1.Pod
	for i := range proxies.Items {
		if proxy := &proxies.Items[i]; proxy.Annotations[v1alpha1.AnnotationFencedAfter] != "" {
			fenced = append(fenced, proxy)
		}
	}
	return fenced, nil
}

// warnOfSibling records an event if a lost target with fenced delegates has a sibling that is not lost. This source
// then renews its Lease over the sibling, so the target fences nothing.
func (f *Feedback) warnOfSibling(lost client.Object) {
	key, clusterID := client.ObjectKeyFromObject(lost), targetkind.Status(lost).ClusterID
	for _, to := range f.queues.All() {
		if to.target.Key != key && clusterID != "" && to.target.ClusterID == clusterID && to.target.Reachable() {
			f.recordUnfenced(lost, targetkind.Name(to.target.Key))
			return
		}
	}
}

// isLost says whether a target does not answer. A target that refuses this source, say, is not meant.
func (f *Feedback) isLost(key types.NamespacedName, status v1alpha1.TargetStatus) bool {
	if f.anyEngaged(key, (*engage.Target).Reachable) {
		return false
	}
	connected := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	return connected != nil && connected.Reason == v1alpha1.ReasonUnreachable
}

// doubt says why this source cannot rely on it that a lost target fences delegates. It is empty if the target did when
// it was last seen. A new leader has not seen the target. The status then says what the last leader saw: a target whose
// manager was silent fences nothing, whatever its Lease says.
func (f *Feedback) doubt(key types.NamespacedName, status v1alpha1.TargetStatus) string {
	unfenced := func(to *engage.Target) bool { return !to.Fences() }
	switch {
	case meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake):
		return "the target's manager was silent before (condition Awake), and a silent manager fences nothing"
	case !ptr.Deref(status.Fences, false), f.anyEngaged(key, unfenced):
		return "the target may not have fenced pods before (status.fences is not true): it refused this cluster, " +
			"another manager acted there as this cluster, or its own manager does not fence, say"
	}
	return ""
}

// warnOfDoubt records an event about a lost target, once for each cause until the target is back.
func (f *Feedback) warnOfDoubt(lost client.Object, doubt string) {
	if said, _ := f.doubts.Swap(client.ObjectKeyFromObject(lost), doubt); said != doubt {
		f.recordUnconfirmed(lost, doubt)
	}
}

// anyEngaged says whether the target of this name is engaged, although it may be lost, and is so.
func (f *Feedback) anyEngaged(key types.NamespacedName, is func(*engage.Target) bool) bool {
	return slices.ContainsFunc(f.queues.All(), func(to routed) bool { return to.target.Key == key && is(to.target) })
}

// surelyFenced says whether the target has ended the delegate of a terminating proxy, given for how long this source
// has surely been silent.
func surelyFenced(proxy *corev1.Pod, silent time.Duration) bool {
	fence, err := translate.Fence(proxy.Annotations[v1alpha1.AnnotationFencedAfter])
	return err == nil && fence > 0 && proxy.DeletionTimestamp != nil && translate.IsProxy(proxy) &&
		silent > timeouts.FenceHoldsAfterRestart(fence, translate.GracePeriod(&proxy.Spec))
}

// confirmFenced confirms the end of a proxy, unless that was done, and the API server did it.
func (f *Feedback) confirmFenced(ctx context.Context, proxy *corev1.Pod) error {
	switch {
	case !confirmed(proxy):
		f.recordFenced(proxy)
	case !stuck(proxy, f.options.Clock.Now()):
		return nil
	}
	return f.remove(ctx, proxy, &removal{status: statusAtEnd(proxy), grace: ptr.To[int64](0)})
}
