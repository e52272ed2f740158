package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	labelInstance = "app.kubernetes.io/instance"
	// wide is the Service with many endpoints, in slices of the size that Kubernetes makes.
	wide       = "wide"
	wideSlices = 10
	sliceSize  = 100
)

// following is how many objects follow the proxies, which need them in turn.
type following struct{ configMaps, secrets, services int }

func (f following) any() bool { return f != following{} }

func configMapName(i int) string { return fmt.Sprintf("application-%04d", i) }
func secretName(i int) string    { return fmt.Sprintf("database-%04d", i) }
func serviceName(i int) string   { return fmt.Sprintf("production-%04d", i) }

// addTo lets the i-th pod refer to its objects, and its Service select it.
func (f following) addTo(pod *corev1.Pod, i int) {
	if f.configMaps > 0 {
		pod.Spec.Volumes[0].ConfigMap.Name = configMapName(i % f.configMaps)
	}
	if f.secrets > 0 {
		for j, v := range pod.Spec.Containers[0].Env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				pod.Spec.Containers[0].Env[j].ValueFrom.SecretKeyRef.Name = secretName(i % f.secrets)
			}
		}
	}
	if f.services > 0 {
		pod.Labels[labelInstance] = serviceName(i % f.services)
	}
}

// copies returns how many copies the targets get, by resource: one in each target that has a proxy which needs it. Each
// target gets the endpoints of the others as one more object.
func (f following) copies(o options) map[string]int {
	counts, seen := map[string]int{}, map[string]bool{}
	for i := range o.proxies {
		target := i * o.targets / o.proxies
		for resource, of := range map[string]int{
			"configmaps": f.configMaps, "secrets": f.secrets, "services": f.services, "endpointslices": f.services,
		} {
			if of == 0 {
				continue
			}
			if key := fmt.Sprint(resource, i%of, "/", target); !seen[key] {
				seen[key] = true
				counts[resource]++
			}
		}
	}
	if f.services > 0 {
		counts["services"] += o.targets
		counts["endpointslices"] += o.targets * wideSlices
	}
	return counts
}

// follow creates the objects that follow the proxies.
func (s *sourceCluster) follow(ctx context.Context, o options) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	create := func(object client.Object) {
		group.Go(func() error {
			if err := s.client.Create(ctx, object); err != nil {
				return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
			}
			return nil
		})
	}
	for i := range o.following.configMaps {
		create(&corev1.ConfigMap{ObjectMeta: named(configMapName(i)), Data: map[string]string{
			"application.yaml": strings.Repeat("option: value\n", 150),
		}})
	}
	for i := range o.following.secrets {
		create(&corev1.Secret{ObjectMeta: named(secretName(i)), StringData: map[string]string{
			"user": "application", "password": strings.Repeat("0123456789abcdef", 4),
		}})
	}
	for i := range o.following.services {
		create(newService(serviceName(i), map[string]string{labelInstance: serviceName(i)}))
		create(newSlice(serviceName(i), 0, o.endpoints(i)))
	}
	if o.following.services > 0 {
		global := newService(wide, map[string]string{labelInstance: wide})
		global.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
		create(global)
		for i := range wideSlices {
			create(newSlice(wide, i, endpointsOf(i*sliceSize, (i+1)*sliceSize, 1, func(int) string { return "node" })))
		}
	}
	return group.Wait()
}

// endpoints returns those of the i-th Service: the proxies that it selects.
func (o options) endpoints(i int) []discoveryv1.Endpoint {
	return endpointsOf(i, o.proxies, o.following.services, func(n int) string {
		return translate.VirtualNodeName(nameOf(n * o.targets / o.proxies))
	})
}

func endpointsOf(from, to, step int, node func(int) string) []discoveryv1.Endpoint {
	var endpoints []discoveryv1.Endpoint
	for n := from; n < to; n += step {
		endpoints = append(endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.128.%d.%d", n/250, n%250+1)},
			Conditions: discoveryv1.EndpointConditions{
				Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false),
			},
			NodeName:  ptr.To(node(n)),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: podName(n)},
		})
	}
	return endpoints
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func newService(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{ObjectMeta: named(name), Spec: corev1.ServiceSpec{
		Selector: selector,
		Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
	}}
}

func newSlice(service string, i int, endpoints []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	meta := named(fmt.Sprintf("%s-%05d", service, i))
	meta.Labels = map[string]string{
		discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{
			Name: ptr.To("http"), Port: ptr.To[int32](8080), Protocol: ptr.To(corev1.ProtocolTCP),
		}},
	}
}
