package feedback

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
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
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !f.isLostAndFences(request.NamespacedName, targetkind.Status(target)) {
		return reconcile.Result{}, nil // A change of its status is an event.
	}
	heard := f.options.LastRenewal(request.NamespacedName, targetkind.Status(target).ClusterID)
	if heard.IsZero() {
		return reconcile.Result{RequeueAfter: lookAtLost}, nil
	}
	proxies, err := f.options.Proxies.List(ctx, translate.VirtualNodeName(request.NamespacedName))
	if err != nil {
		return reconcile.Result{}, err
	}
	silent, fences := f.options.Clock.Since(heard), false
	for i := range proxies.Items {
		proxy := &proxies.Items[i]
		if proxy.Annotations[v1alpha1.AnnotationFencedAfter] == "" {
			continue
		}
		fences = true
		if surelyFenced(proxy, silent) {
			if err := f.confirmFenced(ctx, proxy); err != nil {
				return reconcile.Result{}, err
			}
		}
	}
	if fences {
		f.warnOfSibling(target)
	}
	return reconcile.Result{RequeueAfter: lookAtLost}, nil
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

// isLostAndFences says whether a target does not answer, and fenced delegates when it was last seen. A target that is
// lost and does not fence is not meant. A new leader has not seen the target. The status then says what the last leader
// saw: a target whose manager was silent fences nothing, whatever its Lease says.
func (f *Feedback) isLostAndFences(key types.NamespacedName, status v1alpha1.TargetStatus) bool {
	for _, to := range f.queues.All() {
		if to.target.Key == key && (to.target.Reachable() || !to.target.Fences()) {
			return false
		}
	}
	if meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake) {
		return false
	}
	connected := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionConnected)
	return connected != nil && connected.Reason == v1alpha1.ReasonUnreachable && ptr.Deref(status.Fences, false)
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
