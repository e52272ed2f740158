package chaperon

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	controllerName = "chaperon"
	chaperonKind   = "PodChaperon"

	// workers is how many PodChaperons are worked on at once: each step is a round trip to the API server.
	workers = 10
	// deadline is for all of one reconciliation's requests.
	deadline = 30 * time.Second
	// What stood in the way of a delegate, an admission webhook that was down, say, is found to be gone within
	// lastRetry.
	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
)

// Reconciler makes and follows the delegates of PodChaperons. It is safe for concurrent use, with one call per
// PodChaperon at a time.
type Reconciler struct {
	client    client.Client
	apiReader client.Reader
	clock     clock.PassiveClock
	recorder  events.EventRecorder
	metrics   *metrics
	written   ownWrites
}

// New makes a Reconciler. The client reads PodChaperons and pods, from caches if it likes; apiReader reads from the API
// server.
func New(c client.Client, apiReader client.Reader, clk clock.PassiveClock, recorder events.EventRecorder) *Reconciler {
	return &Reconciler{client: c, apiReader: apiReader, clock: clk, recorder: recorder, metrics: newMetrics()}
}

// Reconcile brings the delegate of one PodChaperon about, or its status back. What it reads are the cache's own
// objects, which nothing here changes.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	chaperon := &v1alpha1.PodChaperon{}
	if err := r.client.Get(ctx, request.NamespacedName, chaperon, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.written.forget(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("getting the PodChaperon: %w", err)
	}
	chaperon = r.written.newest(chaperon)
	pod, err := r.getDelegate(ctx, chaperon)
	if err != nil {
		return reconcile.Result{}, err
	}
	return r.carryOut(ctx, chaperon, pod, decide(chaperon, pod, r.clock.Now()))
}

// Register adds the controller to a manager, on the replica that leads. The manager's cache may hold pods cut down
// by package podcache.
func (r *Reconciler) Register(mgr manager.Manager) error {
	if err := r.metrics.register(); err != nil {
		return fmt.Errorf("registering the metrics of controller %q: %w", controllerName, err)
	}
	err := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.PodChaperon{}).
		Owns(&corev1.Pod{}).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   deadline,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				firstRetry,
				lastRetry,
			),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %q: %w", controllerName, err)
	}
	return nil
}

// getDelegate finds the pod of the PodChaperon's name, nil if there is none. A delegate that is missed is looked for in the API
// server, unless the cache had it while it was to end.
func (r *Reconciler) getDelegate(ctx context.Context, chaperon *v1alpha1.PodChaperon) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(chaperon), pod, client.UnsafeDisableDeepCopy)
	if _, ending := deletionGrace(chaperon); ending && err == nil {
		r.written.noteEnding(chaperon)
	}
	if apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil && delegateSeen(&chaperon.Status) &&
		!r.written.ending(chaperon) {
		pod = &corev1.Pod{}
		err = r.apiReader.Get(ctx, client.ObjectKeyFromObject(chaperon), pod)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("getting the delegate: %w", err)
	}
	return pod, nil
}

func (r *Reconciler) carryOut(
	ctx context.Context,
	chaperon *v1alpha1.PodChaperon,
	pod *corev1.Pod,
	d decision,
) (reconcile.Result, error) {
	if d.status != nil {
		if err := r.writeStatus(ctx, chaperon, d.status); err != nil {
			return reconcile.Result{}, err
		}
	}
	if d.deleteDelegate {
		if err := r.deleteObject(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: d.grace}); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting the delegate: %w", err)
		}
	}
	if d.deleteChaperon {
		if err := r.deleteObject(ctx, chaperon, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting the PodChaperon: %w", err)
		}
	}
	if d.create {
		return r.createDelegate(ctx, chaperon)
	}
	return reconcile.Result{RequeueAfter: d.wait}, nil
}

// createDelegate makes the delegate, or records why that is refused.
func (r *Reconciler) createDelegate(ctx context.Context, chaperon *v1alpha1.PodChaperon) (reconcile.Result, error) {
	delegate := translate.Delegate(chaperon)
	err := r.client.Create(ctx, delegate)
	if apierrors.IsAlreadyExists(err) {
		return r.decideOccupied(ctx, chaperon)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		return reconcile.Result{RequeueAfter: time.Duration(max(seconds, 1)) * time.Second}, nil
	}
	if refusedForGood(err) {
		return r.refuseDelegate(ctx, chaperon, err.Error())
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("creating the delegate: %w", err)
	}
	r.recordCreated(chaperon)
	log.FromContext(ctx).V(1).Info("Created the delegate", "uid", delegate.UID)
	return reconcile.Result{}, nil
}

// decideOccupied looks who has the delegate's name. If it is the delegate, or another's that is about to go, its event wakes
// us.
func (r *Reconciler) decideOccupied(ctx context.Context, chaperon *v1alpha1.PodChaperon) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(chaperon), pod); err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the pod that has the delegate's name: %w", err)
	}
	return r.carryOut(ctx, chaperon, pod, decide(chaperon, pod, r.clock.Now()))
}

func (r *Reconciler) refuseDelegate(
	ctx context.Context,
	chaperon *v1alpha1.PodChaperon,
	message string,
) (reconcile.Result, error) {
	log.FromContext(ctx).Info("The delegate was refused", "message", message)
	d := decideRefused(chaperon, message, r.clock.Now())
	if d.status == nil { // It was lost before and its status goes on saying that.
		r.recordRefused(chaperon, message)
	}
	return r.carryOut(ctx, chaperon, nil, d)
}

// deleteObject deletes an object as it is known here, and not another one of its name.
func (r *Reconciler) deleteObject(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	uid := object.GetUID()
	err := r.client.Delete(ctx, object, append(options, client.Preconditions{UID: &uid})...)
	if apierrors.IsConflict(err) {
		return nil // Another object of that name; its event follows.
	}
	return client.IgnoreNotFound(err)
}

// writeStatus patches what differs. Where the status says that there is no delegate, the PodChaperon must be as we know
// it; if it is not, its event follows.
func (r *Reconciler) writeStatus(ctx context.Context, chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(&chaperon.Status, status) {
		return nil
	}
	patch, err := statusPatch(chaperon, status)
	if err != nil {
		return fmt.Errorf("making the status patch: %w", err)
	}
	updated := &v1alpha1.PodChaperon{}
	updated.Namespace, updated.Name = chaperon.Namespace, chaperon.Name
	err = r.client.Status().Patch(ctx, updated, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	r.written.remember(updated)
	r.recordLost(chaperon, status)
	return nil
}
