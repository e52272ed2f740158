package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// story is one test's namespace, in all clusters, and its two targets.
type story struct {
	*testing.T

	namespace string
	c2, c3    *place
}

// place is a target that is engaged.
type place struct {
	*engage.Target

	cluster   *apiserver.Cluster
	disengage func()
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{T: t, namespace: shared.source.Namespace(t, map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue})}
	for _, cluster := range []*apiserver.Cluster{shared.c2, shared.c3} {
		s.must(cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	}
	s.c2, s.c3 = s.engage(shared.c2), s.engage(shared.c3)
	return s
}

// engage engages a target, by default one of this namespace, until the test ends or disengages it, and makes its virtual node if there is none.
func (s *story) engage(cluster *apiserver.Cluster, options ...func(*engage.Target)) *place {
	s.Helper()
	key := types.NamespacedName{Namespace: s.namespace, Name: cluster.Name}
	config, err := cluster.User(user)
	s.must(err)
	reader, err := client.New(config, client.Options{Scheme: shared.scheme})
	s.must(err)
	p := &place{cluster: cluster, Target: &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key), Config: config, APIReader: reader,
	}}
	for _, option := range options {
		option(p.Target)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: p.NodeName, Labels: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
	}}
	if err := shared.source.Client.Create(s.Context(), node); !apierrors.IsAlreadyExists(err) {
		s.must(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	c, err := cache.New(config, cache.Options{Scheme: shared.scheme, ByObject: map[client.Object]cache.ByObject{
		&v1alpha1.PodChaperon{}: {Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelTargetHash: p.Hash})},
	}})
	s.must(err)
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		s.Fatal("the target's cache does not sync")
	}
	p.Cache = c
	p.Client, err = client.New(config, client.Options{Scheme: shared.scheme, Cache: &client.CacheOptions{Reader: c}})
	s.must(err)
	s.must(shared.registry.Engage(ctx, p.Target))
	done := false
	p.disengage = func() {
		if done {
			return
		}
		done = true
		shared.registry.Disengage(p.Target)
		cancel()
		if err := <-stopped; err != nil {
			s.Error(err)
		}
	}
	s.Cleanup(p.disengage)
	return p
}

func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// create creates an object in the story's namespace of the source.
func (s *story) create(object client.Object) {
	s.Helper()
	object.SetNamespace(s.namespace)
	s.must(shared.source.Client.Create(s.Context(), object))
}

// change changes an object of the source.
func change[T client.Object](s *story, object T, change func(T)) {
	s.Helper()
	s.must(shared.source.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object))
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		s.Fatalf("%T", object)
	}
	change(object)
	s.must(shared.source.Client.Patch(s.Context(), object, client.MergeFrom(before), client.FieldOwner("user")))
}

func (s *story) service(name string, options ...func(*corev1.Service)) *corev1.Service {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}, Annotations: map[string]string{}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80}},
		},
	}
	for _, option := range options {
		option(service)
	}
	s.create(service)
	return service
}

// slice plays the source's controller: it writes a Service's EndpointSlice with endpoints on nodes, by address.
func (s *story) slice(service string, nodeByAddress map[string]string) *discoveryv1.EndpointSlice {
	s.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints:   endpoints(nodeByAddress),
	}
	s.create(slice)
	return slice
}

func endpoints(nodeByAddress map[string]string) []discoveryv1.Endpoint {
	var all []discoveryv1.Endpoint
	for address, node := range nodeByAddress {
		all = append(all, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: ptr.To(node), TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: "pod"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return all
}

// chaperon plays the scheduler: it makes a PodChaperon.
func (s *story) chaperon(p *place) *v1alpha1.PodChaperon {
	s.Helper()
	c := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, GenerateName: "web-",
			Labels: map[string]string{v1alpha1.LabelTargetHash: p.Hash, v1alpha1.LabelParentClusterID: clusterID},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}},
	}
	s.must(p.cluster.Client.Create(s.Context(), c))
	return c
}

// followed makes a Service with an endpoint in each target.
func (s *story) followed(name string, options ...func(*corev1.Service)) (*corev1.Service, *discoveryv1.EndpointSlice) {
	s.Helper()
	service := s.service(name, options...)
	slice := s.slice(name, map[string]string{"10.2.0.1": s.c2.NodeName, "10.3.0.1": s.c3.NodeName, "10.1.0.1": "node"})
	s.chaperon(s.c2)
	s.chaperon(s.c3)
	return service, slice
}

// there waits until an object of a target is as check wants it.
func there[T client.Object](s *story, p *place, name string, object T, check func(T) error) T {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		if err := p.cluster.Client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, object); err != nil {
			return err
		}
		return check(object)
	})
	return object
}

// ours checks whose copy it is.
func ours(o client.Object) error {
	if o.GetLabels()[v1alpha1.LabelParentClusterID] != clusterID {
		return fmt.Errorf("labels %v", o.GetLabels())
	}
	return nil
}

func (s *story) copied(p *place, name string) *corev1.Service {
	s.Helper()
	return there(s, p, name, &corev1.Service{}, func(c *corev1.Service) error { return ours(c) })
}

// gone waits until an object of that name does not exist in a target.
func (s *story) gone(p *place, object client.Object, name string) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		err := p.cluster.Client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("%T %q is still there", object, name))
	})
}

// serves waits until our EndpointSlices of a Service in a target have just these addresses, those that are not ready with a "!".
func (s *story) serves(p *place, service string, want ...string) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := p.cluster.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{
			discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: v1alpha1.FieldOwner, v1alpha1.LabelParentClusterID: clusterID,
		}); err != nil {
			return err
		}
		var got []string
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.NodeName != nil || endpoint.TargetRef != nil {
					return fmt.Errorf("endpoint %v names what is in the source", endpoint)
				}
				address := endpoint.Addresses[0]
				if !ptr.Deref(endpoint.Conditions.Ready, true) {
					address += "!"
				}
				got = append(got, address)
			}
			if len(slice.Endpoints) == 0 {
				got = append(got, "an empty slice")
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("%s serves %v, want %v", p.Key.Name, got, want)
		}
		return nil
	})
}

// settled waits until what events of Services before have asked for is done in a target: a Service of its own goes the whole way, and of each target
// one item is worked on at a time. An item that changes while it is worked on comes after the first such Service, so there are two.
func (s *story) settled(p *place) {
	s.Helper()
	for range 2 {
		marker := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-", Annotations: map[string]string{v1alpha1.AnnotationGlobal: "true"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
		}
		s.create(marker)
		s.copied(p, marker.Name)
	}
}

// looked waits until what events of Services before have asked for is done in the source, in the same way.
func (s *story) looked() {
	s.Helper()
	for range 2 {
		marker := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "marker-", Finalizers: []string{"multicluster.admiralty.io/marker"}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
		}
		s.create(marker)
		apiserver.Eventually(s.T, func(ctx context.Context) error {
			err := shared.source.Client.Get(ctx, client.ObjectKeyFromObject(marker), marker)
			if len(marker.Finalizers) > 0 {
				return errors.Join(err, errors.New("the marker was not looked at"))
			}
			return err
		})
	}
}

// absent checks that an object of that name does not exist in a target now.
func (s *story) absent(p *place, object client.Object, name string) {
	s.Helper()
	err := p.cluster.Client.Get(s.Context(), types.NamespacedName{Namespace: s.namespace, Name: name}, object)
	if !apierrors.IsNotFound(err) {
		s.Errorf("%T %q in %s: got %v, want that it is not found", object, name, p.Key.Name, err)
	}
}

// said waits for an event that tells why something is not in a target.
func (s *story) said(name string, p *place, part string) {
	s.Helper()
	about := s.namespace + "/" + name + " NotFollowed: Target " + p.Key.String()
	apiserver.Eventually(s.T, func(context.Context) error {
		if shared.events.count(about, part) == 0 {
			return errors.New("no event says so")
		}
		return nil
	})
}
