package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

var errNotListed = errors.New("its Services, EndpointSlices and Ingresses could not be listed in time")

// existing has this source's objects in a target, as watches see them. It includes objects that were made for another
// target of the same cluster.
type existing struct {
	services, slices, ingresses toolscache.SharedIndexInformer
	// trouble is the last error of the watches.
	trouble atomic.Pointer[error]
}

// watchExisting watches until ctx ends. It calls changed with each item that changes.
func watchExisting(
	ctx context.Context,
	target *engage.Target,
	clusterID string,
	changed func(item),
) (*existing, error) {
	objects, err := target.Objects()
	if err != nil {
		return nil, err
	}
	in := client.InNamespace(target.Key.Namespace)
	ours := client.MatchingLabels{v1alpha1.LabelParentClusterID: clusterID}
	// The target's own EndpointSlices also have the labels that we gave the copy of the Service.
	made := client.MatchingLabels{
		v1alpha1.LabelParentClusterID: clusterID, discoveryv1.LabelManagedBy: v1alpha1.FieldOwner,
	}
	e := &existing{
		services:  objects.NewInformer(&corev1.Service{}, &corev1.ServiceList{}, in, ours),
		ingresses: objects.NewInformer(&networkingv1.Ingress{}, &networkingv1.IngressList{}, in, ours),
		slices:    objects.NewInformer(&discoveryv1.EndpointSlice{}, &discoveryv1.EndpointSliceList{}, in, made),
	}
	err = e.slices.AddIndexers(toolscache.Indexers{indexService: serviceOf})
	for informer, transform := range map[toolscache.SharedIndexInformer]toolscache.TransformFunc{
		e.services: withOurs, e.ingresses: withOurs, e.slices: withoutManagers,
	} {
		_, failed := prepareInformer(informer, onEach(changed), transform, func(err error) { e.trouble.Store(&err) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	for _, informer := range []toolscache.SharedIndexInformer{e.services, e.slices, e.ingresses} {
		go informer.RunWithContext(ctx)
	}
	return e, nil
}

// wait waits until everything is listed.
func (e *existing) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if toolscache.WaitForCacheSync(ctx.Done(), e.services.HasSynced, e.slices.HasSynced, e.ingresses.HasSynced) {
		return nil
	}
	if err := e.trouble.Load(); err != nil {
		return fmt.Errorf("listing Services, EndpointSlices and Ingresses: %w", *err)
	}
	return errNotListed
}

func (e *existing) service(key types.NamespacedName) *corev1.Service {
	service, _ := cached[*corev1.Service](e.services, key)
	return service
}

func (e *existing) endpoints(key types.NamespacedName) []*discoveryv1.EndpointSlice {
	return cachedByIndex[*discoveryv1.EndpointSlice](e.slices, indexService, key.String())
}

func (e *existing) ingress(key types.NamespacedName) *networkingv1.Ingress {
	ingress, _ := cached[*networkingv1.Ingress](e.ingresses, key)
	return ingress
}

// items returns the items in a namespace. An empty name stands for all namespaces. Services of which only
// EndpointSlices remain are included.
func (e *existing) items(namespace string) []item {
	return slices.Concat(itemsIn(e.services, namespace), itemsIn(e.slices, namespace), itemsIn(e.ingresses, namespace))
}
