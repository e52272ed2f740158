package garbagecollection

import (
	"context"
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"

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

// ofOneSource says whether a Service is a copy of the source that wrote an EndpointSlice.
func ofOneSource(service, slice *metav1.PartialObjectMetadata) bool {
	return isCopy(service) && service.Labels[v1alpha1.LabelParentClusterID] == slice.Labels[v1alpha1.LabelParentClusterID]
}

// deleteLost deletes an EndpointSlice that lost its Service, in whatever version: its source cannot keep it by changing
// it.
func (r *Remover) deleteLost(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	all := r.client.Resource(endpointSlices().GroupVersionResource).Namespace(object.Namespace)
	uid := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &object.UID}}
	if err := all.Delete(ctx, object.Name, uid); apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("deleting an EndpointSlice whose Service is gone: %w", err)
	}
	log.FromContext(ctx).Info("Deleted a copied EndpointSlice whose Service is not a copy of the same source",
		"namespace", object.Namespace, "name", object.Name, "service", object.Labels[discoveryv1.LabelServiceName],
		"sourceClusterID", object.Labels[v1alpha1.LabelParentClusterID])
	return nil
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
