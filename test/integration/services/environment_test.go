package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "source-id"
	// sourceUser is the user name of the source in targets.
	sourceUser = "source"
)

// serviceExports is the kind ServiceExport of the Multi-Cluster Services API.
const serviceExports = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: serviceexports.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/1748"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {kind: ServiceExport, listKind: ServiceExportList, plural: serviceexports, singular: serviceexport}
  versions:
  - {name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
`

// The tests share a source with one follower, and two target clusters.
var (
	source, cluster2, cluster3 *env.Cluster
	registry                   *engage.Registry
	follower                   *services.Follower
	clock                      *clocktesting.FakePassiveClock // the follower's
	events                     recorder
	secrets                    = keptSecrets{
		kept: map[types.NamespacedName]map[types.NamespacedName][]string{}, refused: map[types.NamespacedName]bool{},
	}
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "c2", "c3")
	source, cluster2, cluster3 = clusters[0], clusters[1], clusters[2]
	createServiceExports(t)
	for _, cluster := range clusters[1:] {
		cluster.InstallSourceRoles(t)
		cluster.BindSource(t, sourceUser)
	}
	clock = clocktesting.NewFakePassiveClock(time.Now())
	var err error
	follower, err = services.New(services.Options{
		Client:      source.Client,
		APIReader:   source.Client,
		Config:      source.Config,
		Mapper:      source.Client.RESTMapper(),
		Source:      translate.Source{ClusterID: sourceID},
		KeepSecrets: secrets.keep,
		Clock:       clock,
		Recorder:    &events,
		Logger:      logr.Discard(),
		Workers:     1, // The first item in the queue is done first: see waitForWorkers.
	})
	env.Must(t, err)
	registry = engage.NewRegistry(follower)
	env.Run(t, follower.Start)
}

// createServiceExports returns once the source has the kind.
func createServiceExports(t env.T) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	env.Must(t, yaml.Unmarshal([]byte(serviceExports), crd))
	env.Create(t, source, crd)
	env.Eventually(t, func(context.Context) error {
		kind := schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}
		_, err := source.Client.RESTMapper().RESTMapping(kind)
		return err
	})
}

// recorder keeps events as "<namespace>/<name> <reason>: <note>".
type recorder struct{ env.Journal }

// Eventf keeps an event.
func (r *recorder) Eventf( //nolint:revive // The interface has these parameters.
	regarding, _ runtime.Object, _, reason, _, note string, args ...any,
) {
	about, _ := meta.Accessor(regarding)
	r.Add(fmt.Sprintf("%s/%s %s: %s", about.GetNamespace(), about.GetName(), reason, fmt.Sprintf(note, args...)))
}

// engaged engages the targets c2 and c3 of a new namespace until the test ends.
func engaged(t *testing.T) (namespace string, c2, c3 *env.Target) {
	t.Helper()
	namespace = env.Namespace(t, env.Enabled(), source, cluster2, cluster3)
	c2, c3 = newTarget(namespace, "c2", cluster2), newTarget(namespace, "c3", cluster3)
	doEngage(t, c2)
	doEngage(t, c3)
	return namespace, c2, c3
}

// newTarget returns a target that is not engaged.
func newTarget(namespace, name string, cluster *env.Cluster) *env.Target {
	target := env.NewTarget(cluster, types.NamespacedName{Namespace: namespace, Name: name})
	target.Cached = true
	return target
}

// doEngage engages a target and creates its virtual node if there is none.
func doEngage(t *testing.T, target *env.Target) {
	t.Helper()
	env.Ensure(t, source, env.VirtualNode(target.NodeName))
	target.Login = target.Cluster.User(t, sourceUser)
	target.Engage(t, registry)
}

// newService returns a Service that does not exist yet.
func newService(namespace, name string, changes ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: env.Meta(namespace, name)}
	service.Labels, service.Annotations = map[string]string{"app": name}, map[string]string{}
	service.Spec.Selector = map[string]string{"app": name}
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80}}
	for _, change := range changes {
		change(service)
	}
	return service
}

// create creates a Service in the source.
func create(t *testing.T, namespace, name string, changes ...func(*corev1.Service)) *corev1.Service {
	t.Helper()
	service := newService(namespace, name, changes...)
	env.Create(t, source, service)
	return service
}

// annotated gives a Service an annotation.
func annotated(key string) func(*corev1.Service) {
	return func(service *corev1.Service) { service.Annotations[key] = "true" }
}

// slice plays the source's controller: it writes a Service's EndpointSlice with endpoints on nodes, by address.
func slice(t *testing.T, service *corev1.Service, nodeByAddress map[string]string) *discoveryv1.EndpointSlice {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  env.Meta(service.Namespace, service.Name+"-abcde"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints:   endpoints(nodeByAddress),
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: service.Name}
	env.Create(t, source, slice)
	return slice
}

func endpoints(nodeByAddress map[string]string) []discoveryv1.Endpoint {
	all := []discoveryv1.Endpoint{}
	for address, node := range nodeByAddress {
		all = append(all, discoveryv1.Endpoint{
			Addresses: []string{address}, NodeName: ptr.To(node),
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: "pod"},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		})
	}
	return all
}

// setEndpoints plays the source's controller: it changes the endpoints of an EndpointSlice.
func setEndpoints(t *testing.T, slice *discoveryv1.EndpointSlice, nodeByAddress map[string]string) {
	t.Helper()
	env.Change(t, source, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = endpoints(nodeByAddress) })
}

// createChaperon plays the scheduler: it creates a PodChaperon.
func createChaperon(t *testing.T, namespace string, in *env.Target) *v1alpha1.PodChaperon {
	t.Helper()
	c := env.Chaperon(namespace, "web", sourceID, in.Key)
	env.Create(t, in.Cluster, c)
	return c
}

// createFollowed creates a Service with an endpoint, and a PodChaperon, in each of two targets.
func createFollowed(
	t *testing.T, c2, c3 *env.Target, name string, changes ...func(*corev1.Service),
) (*corev1.Service, *discoveryv1.EndpointSlice) {
	t.Helper()
	service := create(t, c2.Key.Namespace, name, changes...)
	s := slice(t, service, map[string]string{"10.2.0.1": c2.NodeName, "10.3.0.1": c3.NodeName, "10.1.0.1": "node"})
	createChaperon(t, service.Namespace, c2)
	createChaperon(t, service.Namespace, c3)
	return service, s
}

// waitForCopy waits until a target has a copy of an object that is as check wants it, and returns it.
func waitForCopy[O client.Object](t *testing.T, in *env.Target, original O, check ...func(O) error) O {
	t.Helper()
	return env.WaitFor(t, in.Cluster, namesake(original), func(c O) error {
		if c.GetLabels()[v1alpha1.LabelParentClusterID] != sourceID {
			return fmt.Errorf("labels %v", c.GetLabels())
		}
		for _, check := range check {
			if err := check(c); err != nil {
				return err
			}
		}
		return nil
	})
}

// waitForNoCopy waits until a target has no object of the name of the original.
func waitForNoCopy[O client.Object](t *testing.T, in *env.Target, original O) {
	t.Helper()
	env.WaitGone(t, in.Cluster, namesake(original))
}

// expectNoCopy checks that a target has no object of the name of the original now.
func expectNoCopy[O client.Object](t *testing.T, in *env.Target, original O) {
	t.Helper()
	if env.Exists(t, in.Cluster, namesake(original)) {
		t.Errorf("%T %q exists in %s", original, original.GetName(), in.Key.Name)
	}
}

// namesake returns an object of the same name, and not of the same UID.
func namesake[O client.Object](original O) O {
	same, _ := original.DeepCopyObject().(O)
	same.SetUID("")
	return same
}

// waitForAddresses waits until our EndpointSlices of a Service in a target have just these addresses, those that are
// not ready with a "!".
func waitForAddresses(t *testing.T, in *env.Target, service *corev1.Service, want ...string) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error {
		list := &discoveryv1.EndpointSliceList{}
		if err := in.Cluster.Client.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingLabels{
			discoveryv1.LabelServiceName: service.Name, discoveryv1.LabelManagedBy: v1alpha1.FieldOwner,
			v1alpha1.LabelParentClusterID: sourceID,
		}); err != nil {
			return err
		}
		var got []string
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.NodeName != nil || endpoint.TargetRef != nil {
					return fmt.Errorf("endpoint %v names an object of the source", endpoint)
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
			return fmt.Errorf("%s has the addresses %v, want %v", in.Key.Name, got, want)
		}
		return nil
	})
}

// newMarker returns a Service without pods.
func newMarker(namespace string) *corev1.Service {
	marker := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "marker-"}}
	marker.Spec.Ports = []corev1.ServicePort{{Port: 1}}
	return marker
}

// waitForWorkers waits until a target has everything that earlier events of Services ask for: another Service goes the
// whole way. In each target one item is worked on at a time. An item that changes meanwhile comes after the first such
// Service, so there are two.
func waitForWorkers(t *testing.T, namespace string, in *env.Target) {
	t.Helper()
	for range 2 {
		marker := newMarker(namespace)
		marker.Annotations = map[string]string{v1alpha1.AnnotationGlobal: "true"}
		env.Create(t, source, marker)
		waitForCopy(t, in, marker)
	}
}

// waitForSource does for the source what waitForWorkers does for a target.
func waitForSource(t *testing.T, namespace string) {
	t.Helper()
	for range 2 {
		marker := newMarker(namespace)
		marker.Finalizers = []string{"multicluster.admiralty.io/marker"}
		env.Create(t, source, marker)
		env.WaitFor(t, source, marker, func(marker *corev1.Service) error {
			if len(marker.Finalizers) > 0 {
				return errors.New("the marker was not looked at")
			}
			return nil
		})
	}
}

// passTime lets the time pass for which a copy stays without a reason, and changes the Service, which is then looked
// at.
func passTime(t *testing.T, service *corev1.Service) {
	t.Helper()
	clock.SetTime(clock.Now().Add(2*time.Minute + time.Second))
	env.Change(t, source, service, func(service *corev1.Service) {
		service.Labels["looked-at"] = strconv.FormatInt(clock.Now().Unix(), 10)
	})
}

// waitForReport waits for an event that says why an object is not copied to a target.
func waitForReport(t *testing.T, original client.Object, in *env.Target, text string) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		if len(reports(original, in, text)) == 0 {
			return fmt.Errorf("no event says %q", text)
		}
		return nil
	})
}

// reports returns the events that say why an object is not copied to a target.
func reports(original client.Object, in *env.Target, text string) []string {
	about := client.ObjectKeyFromObject(original).String() + " NotFollowed: Target " + targetkind.Name(in.Key)
	return events.With(about, text)
}
