package addresses

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// The resources in an id.
const (
	nodes          = "nodes"
	services       = "services"
	pods           = "pods"
	endpointSlices = "endpointslices"
	configured     = "configuration"
	endpoints      = "endpoints" // EndpointSlices of sources
)

// apiServerService is the Service of the cluster's API servers, in the default namespace.
const apiServerService = "kubernetes"

// Register returns an InUse that the manager runs on the leader, and on other replicas from their first Wait. The
// transforms of package podcache keep what it reads of pods and nodes. The manager's own address of the API server is
// in use, too.
func Register(mgr manager.Manager) (*InUse, error) {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Service{}: {Transform: transformService},
			&discoveryv1.EndpointSlice{}: {
				Namespaces: map[string]cache.Config{metav1.NamespaceDefault: {}},
				Label:      labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: apiServerService}),
			},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache of Services: %w", err)
	}
	u := New(mgr.GetCache(), own, mgr.GetConfig().Host)
	leads := manager.RunnableFunc(func(context.Context) error { u.asked(); return nil })
	return u, errors.Join(mgr.Add(u), mgr.Add(leads))
}

// NeedLeaderElection returns false: a webhook serves on each replica.
func (u *InUse) NeedLeaderElection() bool { return false }

// transformService keeps the identity and the addresses of a Service.
func transformService(object any) (any, error) {
	service, ok := object.(*corev1.Service)
	if !ok {
		return object, nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: service.Namespace, Name: service.Name, UID: service.UID,
			ResourceVersion: service.ResourceVersion,
		},
		Spec: corev1.ServiceSpec{ClusterIPs: service.Spec.ClusterIPs, ExternalIPs: service.Spec.ExternalIPs},
		Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: service.Status.LoadBalancer.Ingress},
		},
	}, nil
}

// Start watches until ctx ends, once somebody asks. The manager calls it.
func (u *InUse) Start(ctx context.Context) error {
	select {
	case <-u.wanted:
	case <-ctx.Done():
		return nil
	}
	u.set(id{resource: configured}, user{kind: ofAPIServer, has: read(hostOf(u.apiServer))})
	var synced []toolscache.DoneChecker
	for _, w := range []struct {
		cache    cache.Cache
		kind     client.Object
		resource string
		handler  toolscache.ResourceEventHandler
	}{
		{u.shared, &corev1.Node{}, nodes, handler(u, nodes, userNode)},
		{u.own, &corev1.Service{}, services, handler(u, services, userService)},
		{u.own, &discoveryv1.EndpointSlice{}, endpointSlices, handler(u, endpointSlices, userAPIServer)},
		{u.shared, &corev1.Pod{}, pods, handler(u, pods, userPod)},
	} {
		informer, err := w.cache.GetInformer(ctx, w.kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.kind, err)
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("handling events of %T: %w", w.kind, err)
		}
		listed := registration.HasSyncedChecker()
		synced = append(synced, listed)
		u.mu.Lock()
		u.listed[w.resource] = listed
		u.mu.Unlock()
	}
	go func() {
		if toolscache.WaitFor(ctx, "addresses in use", synced...) {
			close(u.ready)
		}
	}()
	return u.own.Start(ctx)
}

func handler[T client.Object](
	u *InUse, resource string, userOf func(T) user,
) toolscache.ResourceEventHandler {
	idOf := func(object T) id { return id{resource, client.ObjectKeyFromObject(object)} }
	return watch.On(
		func(object T) { u.set(idOf(object), userOf(object)) },
		func(object T) { u.forget(idOf(object)) },
	)
}

// userNode returns the addresses of a node, and those that bridges and tunnels on it take of its ranges. Those of a
// virtual node belong to a pod.
func userNode(node *corev1.Node) user {
	if node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue {
		return user{kind: ofNode}
	}
	var texts []string
	for _, address := range node.Status.Addresses {
		texts = append(texts, address.Address)
	}
	has := read(texts...)
	for _, text := range node.Spec.PodCIDRs {
		if first, err := ParseRange(text); err == nil {
			has = append(has, first.Addr(), first.Addr().Next())
		}
	}
	return user{kind: ofNode, has: has}
}

func userService(service *corev1.Service) user {
	texts := slices.Concat(service.Spec.ClusterIPs, service.Spec.ExternalIPs)
	for i := range service.Status.LoadBalancer.Ingress {
		texts = append(texts, service.Status.LoadBalancer.Ingress[i].IP)
	}
	return user{kind: ofService, has: read(texts...)}
}

func userAPIServer(slice *discoveryv1.EndpointSlice) user {
	if slice.Namespace != metav1.NamespaceDefault || slice.Labels[discoveryv1.LabelServiceName] != apiServerService {
		return user{kind: ofAPIServer}
	}
	var has []netip.Addr
	for i := range slice.Endpoints {
		has = append(has, read(slice.Endpoints[i].Addresses...)...)
	}
	return user{kind: ofAPIServer, has: has}
}

// userPod returns the addresses of a pod. A pod that has finished does not use them any more: its network gives them to
// others. The address of a delegate's host is that of a node.
func userPod(pod *corev1.Pod) user {
	has := read(podIPs(pod.Status.PodIPs)...)
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case translate.IsProxy(pod):
		shown := slices.Concat(has, read(hostIPs(pod.Status.HostIPs)...))
		return user{kind: ofProxy, has: shown, delegate: translate.DelegateName(pod)}
	case owner != nil && owner.Kind == "PodChaperon":
		is := user{kind: ofDelegate, source: pod.Labels[v1alpha1.LabelParentClusterID]}
		if !translate.Finished(pod.Status.Phase) {
			is.has = has
		}
		return is
	case translate.Finished(pod.Status.Phase):
		return user{kind: ofPod}
	default:
		return user{kind: ofPod, has: has}
	}
}

// read returns the addresses among texts, each once. A host name is none.
func read(texts ...string) []netip.Addr {
	var addresses []netip.Addr
	seen := sets.New[netip.Addr]()
	for _, text := range texts {
		if address, err := parse(text); err == nil && !seen.Has(address) {
			seen.Insert(address)
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// hostOf returns the host in an address of an API server.
func hostOf(server string) string {
	if parsed, err := url.Parse(server); err == nil && parsed.Host != "" {
		return parsed.Hostname()
	}
	return server
}
