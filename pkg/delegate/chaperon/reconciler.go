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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/restriction"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

const (
	controllerName = "chaperon"
	chaperonKind   = "PodChaperon"

	// workers is the number of PodChaperons that are reconciled at once. Each step waits for the API server.
	workers = 10
	// deadline bounds the requests of one reconciliation together.
	deadline = timeouts.ReconcileChaperon
	// When an obstacle is gone (an admission webhook was down, say), the delegate is created within lastRetry.
	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
)

// Reconciler creates the delegates of PodChaperons, and copies their status. It is safe for concurrent use, with one
// call per PodChaperon at a time.
type Reconciler struct {
	client      client.Client
	apiReader   client.Reader
	clock       clock.PassiveClock
	recorder    events.EventRecorder
	restriction *restriction.Restriction
	metrics     *metrics
	written     ownWrites
	lasts       lasts
	retries     retries
	lost        lostFields
	unanswered  unanswered
	// silence is nil if no delegate is fenced, and wake reconciles those that are to be.
	silence Silence
	wake    wake.Source
	// warnings is nil if nobody watches them.
	warnings Warnings
}

// New returns a Reconciler. The client reads PodChaperons, pods, ClusterSources and Sources, and may read them from a
// cache. apiReader reads from the API server. self is the user name of this manager, or empty.
func New(
	c client.Client, apiReader client.Reader, clk clock.PassiveClock, recorder events.EventRecorder, self string,
) *Reconciler {
	return &Reconciler{
		client: c, apiReader: apiReader, clock: clk, recorder: recorder,
		restriction: restriction.New(c, self), metrics: newMetrics(),
	}
}

// Reconcile creates or deletes the delegate of one PodChaperon, or copies its status. The objects that it reads belong
// to the cache, so nothing here changes them.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.unanswered.begin(r.clock.Now())
	chaperon := &v1alpha1.PodChaperon{}
	if err := r.client.Get(ctx, request.NamespacedName, chaperon, client.UnsafeDisableDeepCopy); err != nil {
		if apierrors.IsNotFound(err) {
			r.written.forget(request.NamespacedName)
			r.lasts.forget(request.NamespacedName)
			r.retries.forget(request.NamespacedName)
			r.lost.forget(request.NamespacedName)
			r.unanswered.forget(request.NamespacedName)
			r.forgetWarnings(request.NamespacedName)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("getting the PodChaperon: %w", err)
	}
	chaperon = r.written.newest(chaperon)
	pod, err := r.getDelegate(ctx, chaperon)
	if err != nil {
		return reconcile.Result{}, err
	}
	silent, err := r.silent(ctx, chaperon)
	if err != nil {
		return reconcile.Result{}, err
	}
	if pod == nil {
		var later bool
		if chaperon, later, err = r.catchUp(ctx, chaperon, silent); later || err != nil {
			return reconcile.Result{}, err
		}
	}
	return r.carryOut(ctx, chaperon, pod, decide(chaperon, pod, silent, r.clock.Now()))
}

// Register adds the controller to a manager. It runs on the leader. The manager's cache may hold pods that package
// podcache has transformed.
func (r *Reconciler) Register(mgr manager.Manager) error {
	if err := r.metrics.register(); err != nil {
		return fmt.Errorf("registering the metrics of controller %q: %w", controllerName, err)
	}
	err := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		For(&v1alpha1.PodChaperon{}).
		Watches(&corev1.Pod{}, r.delegateEvents(mgr)).
		WatchesRawSource(&r.wake).
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

// getDelegate returns the pod of the PodChaperon's name, or nil if there is none. If the cache lacks a delegate that
// has existed, or whose end was requested, the API server is asked: the cache may lag. If the cache had the delegate
// after its end was requested, the delegate is gone.
func (r *Reconciler) getDelegate(ctx context.Context, chaperon *v1alpha1.PodChaperon) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(chaperon), pod, client.UnsafeDisableDeepCopy)
	ending := translate.ToEnd(chaperon)
	if err == nil {
		r.lasts.exists(pod)
	}
	switch {
	case !ending: // A withdrawal means nothing once the delegate has a node.
		r.written.forgetEnding(chaperon)
	case err == nil && metav1.IsControlledBy(pod, chaperon):
		r.written.noteEnding(chaperon)
	}
	if apierrors.IsNotFound(err) && chaperon.DeletionTimestamp == nil &&
		(ending && !r.written.ending(chaperon) || !ending && delegateSeen(&chaperon.Status)) {
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
	if d.status == nil && r.warned(chaperon, pod) {
		d.status = &chaperon.Status
	}
	if d.status != nil {
		if written, err := r.writeStatus(ctx, chaperon, d.status); err != nil || d.afterStatus && !written {
			return reconcile.Result{}, err
		}
	}
	if d.deleteDelegate {
		if err := r.deleteObject(ctx, pod, d.asSeen, &client.DeleteOptions{GracePeriodSeconds: d.grace}); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting the delegate: %w", err)
		}
	}
	if d.deleteChaperon {
		if wait := r.unanswered.wait(chaperon, r.clock.Now()); wait > 0 {
			log.FromContext(ctx).Info("An earlier request may still create the delegate. The PodChaperon stays until "+
				"then, so that the source does not take the pod for ended", "wait", wait)
			return reconcile.Result{RequeueAfter: wait}, nil
		}
		background := client.PropagationPolicy(metav1.DeletePropagationBackground)
		if err := r.deleteObject(ctx, chaperon, d.asSeen, background); err != nil {
			return reconcile.Result{}, fmt.Errorf("deleting the PodChaperon: %w", err)
		}
	}
	if d.create {
		return r.createDelegate(ctx, chaperon)
	}
	if d.changeDelegate {
		return r.change(ctx, chaperon, pod)
	}
	return reconcile.Result{RequeueAfter: d.wait}, nil
}

// createDelegate creates the delegate, or records a refusal: by the API server, or by the rules of a ClusterSource or
// Source.
func (r *Reconciler) createDelegate(ctx context.Context, chaperon *v1alpha1.PodChaperon) (reconcile.Result, error) {
	if unwanted, err := r.unwanted(ctx, chaperon); unwanted || err != nil {
		return reconcile.Result{}, err
	}
	r.written.noteCreated(chaperon)
	rules, err := r.restriction.RulesOf(ctx, chaperon)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the rules for the delegate: %w", err)
	}
	delegate := translate.Delegate(chaperon)
	wished := delegate.Spec.DeepCopy()
	err = r.createWithin(ctx, chaperon, rules, delegate)
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
		r.warnUncreated(ctx, chaperon, err)
		return reconcile.Result{}, fmt.Errorf("creating the delegate: %w", err)
	}
	r.recordCreated(chaperon)
	r.warnUnfenced(ctx, chaperon)
	log.FromContext(ctx).V(1).Info("Created the delegate", "uid", delegate.UID)
	r.showLost(ctx, chaperon, translate.LostFields(wished, &delegate.Spec))
	return reconcile.Result{}, nil
}

// unwanted says whether the API server has the PodChaperon no more, is to delete it, or has another version: then its
// event follows. The API server is not asked about a PodChaperon that is fresh and had no delegate. The cache of pods
// may show the end of a delegate before the cache of PodChaperons shows that of the PodChaperon. The same goes for a
// status that was written although nobody heard the answer. And a source that withdrew an older PodChaperon may delete
// it soon, although this manager has not seen that.
func (r *Reconciler) unwanted(ctx context.Context, chaperon *v1alpha1.PodChaperon) (bool, error) {
	fresh := r.clock.Since(chaperon.CreationTimestamp.Time).Abs() < timeouts.FreshChaperon
	if fresh && !r.written.created(chaperon) && !delegateSeen(&chaperon.Status) {
		return false, nil
	}
	now := &v1alpha1.PodChaperon{}
	err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(chaperon), now)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking whether the PodChaperon still exists: %w", err)
	}
	changed := now.UID != chaperon.UID || now.ResourceVersion != chaperon.ResourceVersion
	return translate.ToEnd(now) || changed || now.DeletionTimestamp != nil, nil
}

// createWithin creates the delegate unless it breaks a rule. A dry run returns the pod that the API server would store,
// and the rules are about this pod. A mutating webhook may treat a dry run differently. So the pod that the API server
// stored is checked, too, and deleted at once if it breaks a rule.
func (r *Reconciler) createWithin(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, rules []restriction.Rule, delegate *corev1.Pod,
) error {
	if err := r.restriction.CheckAccount(ctx, delegate); err != nil {
		return err
	}
	if len(rules) > 0 {
		admitted := delegate.DeepCopy()
		if err := r.client.Create(ctx, admitted, client.DryRunAll); err != nil {
			return err
		}
		if err := r.check(ctx, rules, admitted); err != nil {
			return err
		}
	}
	if err := r.client.Create(ctx, delegate); err != nil {
		r.noteUnanswered(chaperon, err)
		return err
	}
	broken := r.check(ctx, rules, delegate)
	if broken == nil {
		return nil
	}
	if err := r.deleteObject(ctx, delegate, false, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting a delegate that may not be (%s): %w", truncate(broken.Error()), err)
	}
	return broken
}

// check checks what the API server made of the delegate.
func (r *Reconciler) check(ctx context.Context, rules []restriction.Rule, admitted *corev1.Pod) error {
	if err := r.restriction.CheckAccount(ctx, admitted); err != nil {
		return err
	}
	return r.restriction.Check(rules, admitted)
}

// decideOccupied decides again with the pod that has the delegate's name, read from the API server. If this pod is the
// delegate, or the delegate of a deleted PodChaperon, its event causes the next reconciliation.
func (r *Reconciler) decideOccupied(ctx context.Context, chaperon *v1alpha1.PodChaperon) (reconcile.Result, error) {
	pod := &corev1.Pod{}
	if err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(chaperon), pod); err != nil {
		return reconcile.Result{}, fmt.Errorf("getting the pod that has the delegate's name: %w", err)
	}
	return r.carryOut(ctx, chaperon, pod, decide(chaperon, pod, false, r.clock.Now()))
}

// deleteObject deletes this very object, and never another one of the same name. If asSeen is true, it deletes only
// this version of the object.
func (r *Reconciler) deleteObject(
	ctx context.Context, object client.Object, asSeen bool, options ...client.DeleteOption,
) error {
	uid, version := object.GetUID(), object.GetResourceVersion()
	exactly := client.Preconditions{UID: &uid}
	if asSeen {
		exactly.ResourceVersion = &version
	}
	err := r.client.Delete(ctx, object, append(options, exactly)...)
	if apierrors.IsConflict(err) {
		return nil // Another object of that name, or another state of it; the event follows.
	}
	return client.IgnoreNotFound(err)
}

// writeStatus patches the differences of this very PodChaperon, and adds warnings and lost fields to the status. A
// status without a delegate is written only to the version of the PodChaperon that it was decided on. If the API server
// has another version, the result is false, and its event follows.
func (r *Reconciler) writeStatus(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus,
) (written bool, err error) {
	return r.patchStatus(ctx, chaperon, r.withLost(chaperon, r.withWarnings(chaperon, status)))
}

// patchStatus writes a status that has the warnings.
func (r *Reconciler) patchStatus(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus,
) (written bool, err error) {
	if equality.Semantic.DeepEqual(&chaperon.Status, status) {
		return true, nil
	}
	patch, err := statusPatch(chaperon, status)
	if err != nil {
		return false, fmt.Errorf("making the status patch: %w", err)
	}
	updated := &v1alpha1.PodChaperon{}
	updated.Namespace, updated.Name = chaperon.Namespace, chaperon.Name
	err = r.client.Status().Patch(ctx, updated, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	r.written.remember(updated)
	r.recordLost(chaperon, status)
	return true, nil
}
