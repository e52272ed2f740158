package garbagecollection

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// lostService says whether an object is an EndpointSlice that a source wrote, and whose Service is gone or is not a
// copy of the same source. Before it says so, it asks the API server, because the cache may not have the Service yet.
func (r *Remover) lostService(ctx context.Context, k copyKey, object *metav1.PartialObjectMetadata) (bool, error) {
	if k.kind != endpointSlices() || !isCopy(object) || object.DeletionTimestamp != nil {
		return false, nil
	}
	name := object.Labels[discoveryv1.LabelServiceName]
	cached := r.cachedCopy(copyKey{services(), types.NamespacedName{Namespace: object.Namespace, Name: name}})
	if cached != nil && ofOneSource(cached, object) {
		return false, nil
	}
	if name == "" {
		return true, nil
	}
	resource := r.client.Resource(services().GroupVersionResource).Namespace(object.Namespace)
	live, err := resource.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("getting the Service of a copied EndpointSlice: %w", err)
	}
	return !ofOneSource(live, object), nil
}

// deleteLost deletes an EndpointSlice that has lost its Service, unless somebody has just made it their own. The
// version counts once only: otherwise the source could keep the EndpointSlice by changing it again and again.
func (r *Remover) deleteLost(ctx context.Context, kind copyKind, slice *metav1.PartialObjectMetadata) error {
	only := metav1.Preconditions{UID: &slice.UID, ResourceVersion: &slice.ResourceVersion}
	err := r.deleteCopy(ctx, kind, slice, only)
	if !apierrors.IsConflict(err) {
		return err
	}
	live, err := r.client.Resource(kind.GroupVersionResource).Namespace(slice.Namespace).
		Get(ctx, slice.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking whether an EndpointSlice is a copy: %w", err)
	case live.UID != slice.UID, !isCopy(live):
		return nil // An event follows.
	}
	only.ResourceVersion = nil
	if err := r.deleteCopy(ctx, kind, slice, only); !apierrors.IsConflict(err) {
		return err
	}
	return nil
}

// ofOneSource says whether a Service is a copy of the source that wrote an EndpointSlice.
func ofOneSource(service, slice *metav1.PartialObjectMetadata) bool {
	const id = v1alpha1.LabelParentClusterID
	return isCopy(service) && service.Labels[id] == slice.Labels[id]
}

// enqueueEndpoints enqueues the copied EndpointSlices of a Service that changed.
func (r *Remover) enqueueEndpoints(q copyQueue, service *metav1.PartialObjectMetadata) {
	for _, store := range r.stores[endpointSlices()] {
		found, _ := store.ByIndex(toolscache.NamespaceIndex, service.Namespace) // The index exists.
		for _, object := range found {
			if slice, ok := object.(*metav1.PartialObjectMetadata); ok &&
				slice.Labels[discoveryv1.LabelServiceName] == service.Name {
				q.Add(copyKey{endpointSlices(), types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}})
			}
		}
	}
}
