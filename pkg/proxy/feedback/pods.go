package feedback

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// registerPods watches pods. It routes proxies to the workers of targets. Its own controller does the work that
// concerns no target.
func (f *Feedback) registerPods(mgr manager.Manager) error {
	c, err := controller.New("feedback-pods", mgr, controller.Options{
		Reconciler:              reconcile.Func(f.ReconcilePod),
		MaxConcurrentReconciles: workersPerTarget,
	})
	if err != nil {
		return fmt.Errorf("making the controller of pods: %w", err)
	}
	if err := c.Watch(source.Kind(mgr.GetCache(), &corev1.Pod{}, f.PodHandler())); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	return f.registerAddresses(c, mgr)
}

// PodHandler returns what routes the events of pods. The queue is that of ReconcilePod.
func (f *Feedback) PodHandler() handler.TypedEventHandler[*corev1.Pod, reconcile.Request] {
	return handler.TypedFuncs[*corev1.Pod, reconcile.Request]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.Pod], q requestQueue) {
			f.podChanged(e.Object, false, q)
		},
		UpdateFunc: func(_ context.Context, e event.TypedUpdateEvent[*corev1.Pod], q requestQueue) {
			// An API server stores the deletion by force before it removes the pod. The cache may have both by now.
			f.noteForce(e.ObjectNew)
			// PodChaperons in all targets depend on the node of the proxy, and on the deletion of an unbound proxy.
			f.podChanged(
				e.ObjectNew,
				e.ObjectOld.UID != e.ObjectNew.UID || e.ObjectOld.Spec.NodeName != e.ObjectNew.Spec.NodeName ||
					e.ObjectNew.Spec.NodeName == "" && e.ObjectNew.DeletionTimestamp != nil,
				q,
			)
		},
		DeleteFunc: func(_ context.Context, e event.TypedDeleteEvent[*corev1.Pod], _ requestQueue) {
			if e.Object.Spec.SchedulerName == v1alpha1.SchedulerName {
				if !e.DeleteStateUnknown {
					f.noteForce(e.Object)
				}
				// The proxy may have lost its annotations while its delegate still runs.
				f.route(e.Object, e.Object.Spec.NodeName == "" || e.DeleteStateUnknown)
				f.warned.forget(client.ObjectKeyFromObject(e.Object))
			}
		},
	}
}

func (f *Feedback) podChanged(pod *corev1.Pod, everywhere bool, q requestQueue) {
	proxy := translate.IsProxy(pod)
	if proxy {
		f.route(pod, everywhere)
	}
	if slices.ContainsFunc(pod.Finalizers, isOurFinalizer) || proxy && f.mustHide(pod) ||
		!proxy && pod.Spec.NodeName != "" && pod.DeletionTimestamp != nil {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
	}
}

// ReconcilePod removes the finalizers that versions up to v0.17 left. It has the addresses of proxies decided anew. It
// confirms the deletion of pods on virtual nodes that are no proxies.
func (f *Feedback) ReconcilePod(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := f.options.Client.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if slices.ContainsFunc(pod.Finalizers, isOurFinalizer) {
		return reconcile.Result{}, f.removeFinalizers(ctx, pod)
	}
	switch {
	case translate.IsProxy(pod):
		return reconcile.Result{}, f.reviewAddresses(ctx, pod)
	case pod.DeletionTimestamp == nil:
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	if err := f.options.Client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.Labels[v1alpha1.LabelNodeProvider] != v1alpha1.LabelNodeProviderValue {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, ignoreGone(f.deletePod(ctx, pod, ptr.To[int64](0), nil))
}

func isOurFinalizer(finalizer string) bool {
	return strings.HasPrefix(finalizer, v1alpha1.GroupName+"/")
}

func (f *Feedback) removeFinalizers(ctx context.Context, pod *corev1.Pod) error {
	changed := pod.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, isOurFinalizer)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patch := client.MergeFromWithOptions(pod, client.MergeFromWithOptimisticLock{})
	err := f.options.Client.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if err := ignoreGone(err); err != nil {
		return fmt.Errorf("removing finalizers: %w", err)
	}
	return nil
}

// deletePod deletes this very pod, and only this version of it if there is one. If grace is nil, the pod's own grace
// period applies.
func (f *Feedback) deletePod(ctx context.Context, pod *corev1.Pod, grace *int64, version *string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := f.options.Client.Delete(ctx, pod, &client.DeleteOptions{
		GracePeriodSeconds: grace,
		Preconditions:      &metav1.Preconditions{UID: &pod.UID, ResourceVersion: version},
	})
	if err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	return nil
}

// patchStatus writes the differences to the status of this very pod, and only to this version of it. It returns the pod
// as it is then.
func (f *Feedback) patchStatus(
	ctx context.Context, pod *corev1.Pod, status corev1.PodStatus,
) (*corev1.Pod, error) {
	patch, err := statusPatch(pod, status)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	patched := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = f.options.Client.Status().Patch(
		ctx,
		patched,
		client.RawPatch(types.StrategicMergePatchType, patch),
		client.FieldOwner(v1alpha1.FieldOwner),
	)
	if err != nil {
		return nil, fmt.Errorf("patching the pod's status: %w", err)
	}
	return patched, nil
}

// statusPatch returns a strategic merge patch, so that the conditions of others stay. The UID and the version are
// preconditions: the cache may not show yet what was written last. The differences to an older status would mix with
// that, and a proxy that has finished would show the mixture for ever.
func statusPatch(pod *corev1.Pod, status corev1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(corev1.Pod{Status: pod.Status})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	exactly := metav1.ObjectMeta{UID: pod.UID, ResourceVersion: pod.ResourceVersion}
	after, err := json.Marshal(corev1.Pod{ObjectMeta: exactly, Status: status})
	if err != nil {
		return nil, fmt.Errorf("encoding the status: %w", err)
	}
	patch, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("comparing statuses: %w", err)
	}
	return patch, nil
}
