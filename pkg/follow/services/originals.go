package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// indexService is the index of EndpointSlices by the namespaced name of their Service.
const indexService = "service"

// originals has the Services, EndpointSlices, Ingresses and ServiceExports of the source's enabled namespaces. It
// leaves out copies of other sources.
type originals struct {
	clientset kubernetes.Interface
	metadata  metadata.Interface
	exports   *schema.GroupVersionResource // of ServiceExports, nil if the source does not have the kind
	// changed is called with each Service or Ingress that changed, and with those to restore in a disabled namespace.
	changed func(item)
	// known is called when the objects of a namespace are listed, and when a namespace is not enabled any more. With an
	// empty name, the enabled namespaces are listed.
	known func(namespace string)
	// troubled is called when a watch fails.
	troubled func(error)

	nodes toolscache.SharedIndexInformer // the virtual nodes

	mu      sync.RWMutex // guards all that follows
	listed  bool         // whether the enabled namespaces and virtual nodes are listed
	enabled map[string]*enabledNamespace
}

type enabledNamespace struct {
	end                                   context.CancelFunc
	services, slices, ingresses, exported toolscache.SharedIndexInformer
	// undisclosed says that ServiceExports cannot be read. Following goes on without them.
	undisclosed atomic.Bool
}

func newOriginals(
	config *rest.Config,
	changed func(item),
	known func(string),
	troubled func(error),
) (*originals, error) {
	clientset, err := kubernetes.NewForConfig(withProtobuf(config))
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	o := &originals{
		clientset: clientset, metadata: metadataClient,
		changed: changed, known: known, troubled: troubled,
		enabled: map[string]*enabledNamespace{},
	}
	o.nodes = o.labelled("nodes", v1alpha1.LabelNodeProvider, v1alpha1.LabelNodeProviderValue)
	return o, nil
}

// labelled returns an informer of the metadata of objects that have a label.
func (o *originals) labelled(resource, key, value string) toolscache.SharedIndexInformer {
	return metadatainformer.NewFilteredMetadataInformer(
		o.metadata,
		corev1.SchemeGroupVersion.WithResource(resource),
		metav1.NamespaceAll,
		0,
		nil,
		func(options *metav1.ListOptions) { options.LabelSelector = key + "=" + value },
	).Informer()
}

// run watches the enabled namespaces until ctx ends.
func (o *originals) run(ctx context.Context) error {
	informer := o.labelled("namespaces", v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue)
	handlers := watch.On(
		func(namespace *metav1.PartialObjectMetadata) { o.enable(ctx, namespace.Name) },
		func(namespace *metav1.PartialObjectMetadata) { o.disable(namespace.Name) },
	)
	registration, err := prepareInformer(informer, handlers, withoutManagers, o.troubled)
	if err != nil {
		return fmt.Errorf("watching namespaces: %w", err)
	}
	unhandled := toolscache.ResourceEventHandlerFuncs{}
	if _, err := prepareInformer(o.nodes, unhandled, withoutManagers, o.troubled); err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	go o.nodes.RunWithContext(ctx)
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced, o.nodes.HasSynced) {
			o.mu.Lock()
			o.listed = true
			o.mu.Unlock()
			o.known("")
		}
	}()
	informer.RunWithContext(ctx)
	return nil
}

// isVirtual says whether a node is a virtual node.
func (o *originals) isVirtual(nodeName string) bool {
	_, ok := cached[*metav1.PartialObjectMetadata](o.nodes, types.NamespacedName{Name: nodeName})
	return ok
}

// enable watches the objects of a namespace, unless it does so already.
func (o *originals) enable(ctx context.Context, name string) {
	if n, _ := o.namespaceOf(name); n != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	n, err := o.watch(name)
	if err != nil {
		cancel()
		o.troubled(err)
		return
	}
	n.end = cancel
	o.mu.Lock()
	o.enabled[name] = n
	o.mu.Unlock()
	for _, informer := range n.informers() {
		go informer.RunWithContext(ctx)
	}
	go func() {
		if toolscache.WaitForCacheSync(ctx.Done(), n.synced) {
			o.known(name)
		}
	}()
}

func (o *originals) disable(name string) {
	o.mu.Lock()
	n := o.enabled[name]
	delete(o.enabled, name)
	o.mu.Unlock()
	if n != nil {
		n.end()
		for _, service := range n.written() {
			o.changed(item{kindRestore, client.ObjectKeyFromObject(service)})
		}
	}
	o.known(name)
}

// written returns the Services whose selector is ours.
func (n *enabledNamespace) written() []*corev1.Service {
	var all []*corev1.Service
	for _, object := range n.services.GetStore().List() {
		if service, ok := object.(*corev1.Service); ok && (rewritten(service) || applied(service)) {
			all = append(all, service)
		}
	}
	return all
}

// watch returns the informers of a namespace, which do not run yet.
func (o *originals) watch(name string) (*enabledNamespace, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(
		o.clientset,
		0,
		informers.WithNamespace(name),
		informers.WithTweakListOptions(
			func(options *metav1.ListOptions) { options.LabelSelector = "!" + v1alpha1.LabelParentClusterID },
		),
	)
	n := &enabledNamespace{
		services:  factory.Core().V1().Services().Informer(),
		slices:    factory.Discovery().V1().EndpointSlices().Informer(),
		ingresses: factory.Networking().V1().Ingresses().Informer(),
	}
	err := n.slices.AddIndexers(toolscache.Indexers{indexService: serviceOf})
	for _, informer := range n.informers() {
		_, failed := prepareInformer(informer, onEach(o.changed), withOurs, o.troubled)
		err = errors.Join(err, failed)
	}
	if o.exports != nil {
		n.exported = metadatainformer.NewFilteredMetadataInformer(o.metadata, *o.exports, name, 0, nil, nil).Informer()
		_, failed := prepareInformer(n.exported, onEach(o.changed), withoutManagers, func(err error) {
			n.undisclosed.Store(true)
			o.troubled(err)
		})
		err = errors.Join(err, failed)
	}
	if err != nil {
		return nil, fmt.Errorf("watching namespace %q: %w", name, err)
	}
	return n, nil
}

func (n *enabledNamespace) informers() []toolscache.SharedIndexInformer {
	all := []toolscache.SharedIndexInformer{n.services, n.slices, n.ingresses}
	if n.exported != nil {
		all = append(all, n.exported)
	}
	return all
}

func (n *enabledNamespace) synced() bool {
	return !slices.ContainsFunc(n.informers(), func(informer toolscache.SharedIndexInformer) bool {
		return !informer.HasSynced() && (informer != n.exported || !n.undisclosed.Load())
	})
}

// namespaceOf returns an enabled namespace, and nil for others. It is not ok until the objects are listed.
func (o *originals) namespaceOf(name string) (n *enabledNamespace, ok bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	n, enabled := o.enabled[name]
	if !enabled {
		return nil, o.listed
	}
	return n, o.listed && n.synced()
}

// items returns the known items of a namespace. An empty name stands for all namespaces.
func (o *originals) items(name string) []item {
	o.mu.RLock()
	defer o.mu.RUnlock()
	var items []item
	for from, n := range o.enabled {
		if name == "" || name == from {
			items = append(items, slices.Concat(itemsIn(n.services, ""), itemsIn(n.ingresses, ""))...)
		}
	}
	return items
}

// service returns everything that the source has of a Service. It is not ok until this is known.
func (o *originals) service(key types.NamespacedName) (original, bool) {
	n, ok := o.namespaceOf(key.Namespace)
	if n == nil || !ok {
		return original{}, ok
	}
	service, _ := cached[*corev1.Service](n.services, key)
	from := original{
		service: service,
		slices:  cachedByIndex[*discoveryv1.EndpointSlice](n.slices, indexService, key.String()),
	}
	if n.exported != nil {
		_, from.exported = cached[*metav1.PartialObjectMetadata](n.exported, key)
	}
	return from, true
}

// ingress returns an Ingress, or nil if it does not exist. It is not ok until this is known.
func (o *originals) ingress(key types.NamespacedName) (*networkingv1.Ingress, bool) {
	n, ok := o.namespaceOf(key.Namespace)
	if n == nil || !ok {
		return nil, ok
	}
	ingress, _ := cached[*networkingv1.Ingress](n.ingresses, key)
	return ingress, true
}

// objectOf returns an item's object, or nil if it does not exist.
func (o *originals) objectOf(i item) client.Object {
	switch i.kind {
	case kindService:
		if from, _ := o.service(i.NamespacedName); from.service != nil {
			return from.service
		}
	case kindIngress:
		if ingress, _ := o.ingress(i.NamespacedName); ingress != nil {
			return ingress
		}
	}
	return nil
}
