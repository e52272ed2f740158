package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

var errNotListed = errors.New("its Services, EndpointSlices and Ingresses could not be listed in time")

// existing has this source's objects in a namespace of a target, or in all, as watches see them. It includes objects
// that were made for another target of the same cluster.
type existing struct {
	services, slices toolscache.SharedIndexInformer
	// ingresses are watched from the first Ingress on.
	ingresses toolscache.SharedIndexInformer
	// ofServices are the answers about Services and EndpointSlices, ofIngresses those about Ingresses.
	ofServices, ofIngresses answers

	stop           context.CancelFunc
	watchIngresses func()
	used           time.Time // when a copy was last to be made, if ever; guarded by copier.mu
}

// answers are the errors of watches.
type answers struct {
	trouble atomic.Pointer[error] // the last one
	refused chan struct{}         // closed when the target has refused a watch
	refuse  func()
}

func (a *answers) init() {
	a.refused = make(chan struct{})
	a.refuse = sync.OnceFunc(func() { close(a.refused) })
}

func (a *answers) note(err error) {
	if a.trouble.Store(&err); apierrors.IsForbidden(err) {
		a.refuse()
	}
}

// watchExisting watches a namespace, or all if it is empty, until ctx ends or stop is called. It calls changed with
// each item that changes.
func watchExisting(
	ctx context.Context, objects *engage.Objects, namespace, clusterID string, changed func(item),
) (*existing, error) {
	in := client.InNamespace(namespace)
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
	e.ofServices.init()
	e.ofIngresses.init()
	err := e.slices.AddIndexers(toolscache.Indexers{indexService: serviceOf})
	for _, prepare := range []struct {
		informer  toolscache.SharedIndexInformer
		transform toolscache.TransformFunc
		answers   *answers
	}{
		{e.services, withOurs, &e.ofServices}, {e.slices, withoutManagers, &e.ofServices},
		{e.ingresses, withOurs, &e.ofIngresses},
	} {
		_, failed := prepareInformer(prepare.informer, onEach(changed), prepare.transform, prepare.answers.note)
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, fmt.Errorf("watching Services: %w", err)
	}
	e.run(ctx)
	return e, nil
}

func (e *existing) run(ctx context.Context) {
	ctx, e.stop = context.WithCancel(ctx)
	e.watchIngresses = sync.OnceFunc(func() { go e.ingresses.RunWithContext(ctx) })
	go e.services.RunWithContext(ctx)
	go e.slices.RunWithContext(ctx)
}

// wait waits until Services and EndpointSlices are listed, or the target has refused this.
func (e *existing) wait(ctx context.Context) error {
	return e.ofServices.wait(ctx, e.services, e.slices)
}

// waitIngresses watches Ingresses from now on, and waits until they are listed.
func (e *existing) waitIngresses(ctx context.Context) error {
	e.watchIngresses()
	return e.ofIngresses.wait(ctx, e.ingresses)
}

func (a *answers) wait(ctx context.Context, informers ...toolscache.SharedIndexInformer) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	for _, informer := range informers {
		if informer.HasSynced() {
			continue
		}
		select {
		case <-informer.HasSyncedChecker().Done():
			continue
		case <-a.refused:
		case <-ctx.Done():
		}
		if err := a.trouble.Load(); err != nil {
			return fmt.Errorf("listing Services, EndpointSlices and Ingresses: %w", *err)
		}
		return errNotListed
	}
	return nil
}

// isRefused says whether the target refuses to list Services or EndpointSlices.
func (e *existing) isRefused() bool {
	select {
	case <-e.ofServices.refused:
		return !e.services.HasSynced() || !e.slices.HasSynced()
	default:
		return false
	}
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
