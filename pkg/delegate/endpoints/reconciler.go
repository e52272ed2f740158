package endpoints

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

const (
	controllerName = "endpoints" // in metrics

	// ReasonRefused is the reason of the event on a Service whose endpoints were deleted.
	ReasonRefused = "EndpointsRefused"
	actionDelete  = "DeleteEndpoints"

	deadline              = 10 * time.Second
	firstRetry, lastRetry = time.Second, time.Minute
)

// Options of New. All are required.
type Options struct {
	// Client deletes EndpointSlices, and reads them from the manager's cache, which is configured with CacheByObject.
	Client    client.Client
	Addresses addresses.Endpoints
	Recorder  events.EventRecorder
}

// Reconciler deletes EndpointSlices of sources that lead where they must not.
type Reconciler struct {
	options Options
	changed wake.Source
}

// CacheByObject returns how the manager's cache must be configured: it has EndpointSlices of sources only.
func CacheByObject() (client.Object, cache.ByObject) {
	ofSources := labels.NewSelector()
	if exists, err := labels.NewRequirement(v1alpha1.LabelParentClusterID, selection.Exists, nil); err == nil {
		ofSources = ofSources.Add(*exists)
	}
	return &discoveryv1.EndpointSlice{}, cache.ByObject{Label: ofSources, Transform: transform}
}

// transform keeps what this package reads of an EndpointSlice. A source decides how big the rest is.
func transform(object any) (any, error) {
	whole, ok := object.(*discoveryv1.EndpointSlice)
	if !ok {
		return object, nil
	}
	kept := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
			DeletionTimestamp: whole.DeletionTimestamp,
			Labels: map[string]string{
				v1alpha1.LabelParentClusterID: whole.Labels[v1alpha1.LabelParentClusterID],
				discoveryv1.LabelServiceName:  whole.Labels[discoveryv1.LabelServiceName],
			},
			Annotations: map[string]string{
				v1alpha1.AnnotationFollowedBy: whole.Annotations[v1alpha1.AnnotationFollowedBy],
			},
		},
	}
	for i := range whole.Endpoints {
		kept.Endpoints = append(kept.Endpoints, discoveryv1.Endpoint{Addresses: whole.Endpoints[i].Addresses})
	}
	return kept, nil
}

// New returns a Reconciler. It does nothing until it is registered with a manager and the manager starts.
func New(options Options) *Reconciler {
	r := &Reconciler{options: options}
	options.Addresses.InUse.OnEndpointsChange(r.changed.Wake)
	return r
}

// Register adds the controller to the manager. It runs on the leader.
func (r *Reconciler) Register(mgr manager.Manager) error {
	err := builder.ControllerManagedBy(mgr).
		Named(controllerName).
		For(&discoveryv1.EndpointSlice{}).
		WatchesRawSource(&r.changed).
		WithOptions(controller.Options{
			ReconciliationTimeout: deadline,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
				firstRetry, lastRetry,
			),
		}).
		Complete(r)
	if err != nil {
		return fmt.Errorf("building controller %q: %w", controllerName, err)
	}
	return nil
}

// Reconcile deletes an EndpointSlice of a source if one of its addresses is in use by others, or is not allowed.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if err := r.options.Addresses.Wait(ctx); err != nil {
		return reconcile.Result{}, fmt.Errorf("waiting until all addresses in use are known: %w", err)
	}
	slice := &discoveryv1.EndpointSlice{}
	err := r.options.Client.Get(ctx, request.NamespacedName, slice, client.UnsafeDisableDeepCopy)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return reconcile.Result{}, fmt.Errorf("getting an EndpointSlice: %w", err)
	}
	if gone || !isCopy(slice) || slice.DeletionTimestamp != nil {
		r.options.Addresses.InUse.Show(request.NamespacedName, nil)
		return reconcile.Result{}, nil
	}
	r.options.Addresses.InUse.Show(request.NamespacedName, slice) // before Check, to learn of changes after it
	if refused := r.options.Addresses.Check(slice, nil); refused != nil {
		return reconcile.Result{}, r.remove(ctx, slice, refused)
	}
	return reconcile.Result{}, nil
}

// isCopy says whether a source wrote an EndpointSlice. Only the source can set the annotation.
func isCopy(slice *discoveryv1.EndpointSlice) bool {
	return slice.Annotations[v1alpha1.AnnotationFollowedBy] != "" && slice.Labels[v1alpha1.LabelParentClusterID] != ""
}

// remove deletes this very EndpointSlice, unless it changed, and says why.
func (r *Reconciler) remove(ctx context.Context, slice *discoveryv1.EndpointSlice, why *addresses.RefusedError) error {
	err := r.options.Client.Delete(
		ctx,
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name}},
		client.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion},
	)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting an EndpointSlice: %w", err)
	}
	log.FromContext(ctx).Info("Deleted endpoints of a source", "reason", why.Error())
	service := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]},
	}
	r.options.Recorder.Eventf(service, nil, corev1.EventTypeWarning, ReasonRefused, actionDelete,
		"deleted EndpointSlice %q of source cluster %q: %s", slice.Name, slice.Labels[v1alpha1.LabelParentClusterID],
		why.Error())
	return nil
}
