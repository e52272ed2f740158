package idle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	controllerName = "idle-pods"

	// deadline bounds the three requests of one reconciliation.
	deadline              = 3 * timeouts.Request
	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
)

// Options of New. All are required.
type Options struct {
	// Client reads pods and nodes of the source cluster from a cache, and writes to the source cluster. The cache may
	// hold objects that package podcache has transformed.
	Client client.Client
	// APIReader reads from the source cluster's API server.
	APIReader client.Reader
	// Acknowledge says whether pods of DaemonSets are acknowledged.
	Acknowledge bool
	// Clock returns the time of transitions.
	Clock clock.PassiveClock
	// Recorder records events about pods.
	Recorder events.EventRecorder
}

// Reconciler gives idle pods their status. It must run on the leader only.
type Reconciler struct{ options Options }

// New returns a Reconciler, which does nothing before Register.
func New(options Options) *Reconciler { return &Reconciler{options: options} }

// Register adds the controller to a manager.
func (r *Reconciler) Register(mgr manager.Manager) error {
	c, err := controller.New(controllerName, mgr, controller.Options{
		Reconciler:            r,
		ReconciliationTimeout: deadline,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			firstRetry,
			lastRetry,
		),
	})
	if err != nil {
		return fmt.Errorf("making controller %q: %w", controllerName, err)
	}
	enqueue := &handler.TypedEnqueueRequestForObject[*corev1.Pod]{}
	pods := source.Kind(mgr.GetCache(), &corev1.Pod{}, enqueue, predicate.NewTypedPredicateFuncs(mayBeIdle))
	if err := c.Watch(pods); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	nodes := source.Kind(mgr.GetCache(), &corev1.Node{}, handler.TypedEnqueueRequestsFromMapFunc(r.podsOn),
		predicate.TypedFuncs[*corev1.Node]{
			UpdateFunc:  func(event.TypedUpdateEvent[*corev1.Node]) bool { return false },
			DeleteFunc:  func(event.TypedDeleteEvent[*corev1.Node]) bool { return false },
			GenericFunc: func(event.TypedGenericEvent[*corev1.Node]) bool { return false },
		})
	if err := c.Watch(nodes); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}

// mayBeIdle says whether a pod of the cache is idle if its node is virtual.
func mayBeIdle(pod *corev1.Pod) bool {
	return translate.IsVirtualNodeName(pod.Spec.NodeName) && pod.DeletionTimestamp == nil &&
		(!translate.IsProxy(pod) || translate.BoundByHand(pod)) && !translate.Finished(pod.Status.Phase)
}

// podsOn returns the pods that are idle because their node turns out to be virtual. A cache may show a pod before its
// node.
func (r *Reconciler) podsOn(ctx context.Context, node *corev1.Node) []reconcile.Request {
	if !isVirtual(node) {
		return nil
	}
	pods := &corev1.PodList{}
	if err := r.options.Client.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil // The cache has stopped.
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName == node.Name && mayBeIdle(pod) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
		}
	}
	return requests
}

func isVirtual(node *corev1.Node) bool {
	return node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue
}

// Reconcile gives a pod the status of an idle pod, if its node is virtual.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	cached := &corev1.Pod{}
	err := r.options.Client.Get(ctx, request.NamespacedName, cached, client.UnsafeDisableDeepCopy)
	if err != nil || !mayBeIdle(cached) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	node := &corev1.Node{}
	key := types.NamespacedName{Name: cached.Spec.NodeName}
	if err := r.options.Client.Get(ctx, key, node, client.UnsafeDisableDeepCopy); err != nil || !isVirtual(node) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{}
	if err := r.options.APIReader.Get(ctx, request.NamespacedName, pod); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if pod.UID != cached.UID {
		return reconcile.Result{}, nil // The cache lags, and its event follows.
	}
	status := decide(pod, r.options.Acknowledge, metav1.NewTime(r.options.Clock.Now()).Rfc3339Copy())
	if status == nil {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, r.write(ctx, pod, status)
}

// write patches the differences to the status of this very pod, and records why a pod that was bound by hand waits.
func (r *Reconciler) write(ctx context.Context, pod *corev1.Pod, status *corev1.PodStatus) error {
	before, after := &corev1.Pod{Status: pod.Status}, &corev1.Pod{Status: *status}
	after.UID = pod.UID
	data, err := client.StrategicMergeFrom(before).Data(after)
	if err != nil {
		return fmt.Errorf("comparing statuses: %w", err)
	}
	written := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	patch := client.RawPatch(types.StrategicMergePatchType, data)
	err = r.options.Client.Status().Patch(ctx, written, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // Another pod has the name, and its event follows.
	}
	if err != nil {
		return fmt.Errorf("patching the status of an idle pod: %w", err)
	}
	if status.Reason == ReasonNotElected && pod.Status.Reason != ReasonNotElected {
		r.options.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, ReasonNotElected, "Run", "%s", status.Message)
	}
	return nil
}
