package services

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheManagedFieldsThatAreKept(t *testing.T) {
	service := func() *corev1.Service {
		return web(func(s *corev1.Service) {
			s.ManagedFields = []metav1.ManagedFieldsEntry{
				{Manager: "cloud", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
				{Manager: v1alpha1.FieldOwner},
				{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:multicluster.admiralty.io/global":{}}`)},
			}
		})
	}
	for name, test := range map[string]struct {
		transform func(any) (any, error)
		want      []string
	}{
		"ours, and those of the annotation global": {withOurs, []string{v1alpha1.FieldOwner, "kubectl"}},
		"none": {withoutManagers, nil},
	} {
		t.Run(name, func(t *testing.T) {
			object, err := test.transform(service())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, entry := range object.(*corev1.Service).ManagedFields {
				got = append(got, entry.Manager)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("managers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnObjectBelongsToAService(t *testing.T) {
	unnamed := endpointsOf("web-1", "node")
	unnamed.Labels = nil
	for name, test := range map[string]struct {
		object any
		want   item
		ok     bool
	}{
		"a Service":                          {web(), item{kindService, shop("web")}, true},
		"an EndpointSlice":                   {endpointsOf("web-1", "node"), item{kindService, shop("web")}, true},
		"an EndpointSlice without a Service": {object: unnamed, want: item{kindService, shop("")}},
		"an Ingress":                         {pathTo("web"), item{kindIngress, shop("entry")}, true},
		"something else":                     {object: &corev1.Pod{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got, ok := itemOf(test.object); got != test.want || ok != test.ok {
				t.Errorf("got %v, %t; want %v, %t", got, ok, test.want, test.ok)
			}
		})
	}
}

func TestItemsOfANamespace(t *testing.T) {
	other := web()
	other.Namespace = "bank"
	services := informerOf(t, &corev1.Service{}, []client.Object{web(), other}, nil)
	for namespace, want := range map[string]int{"": 2, "shop": 1, "other": 0} {
		if got := len(itemsIn(services, namespace)); got != want {
			t.Errorf("%d items in %q, want %d", got, namespace, want)
		}
	}
	if _, ok := cached[*corev1.Service](services, shop("none")); ok {
		t.Error("a Service that is not there is found")
	}
	if _, ok := cached[*networkingv1.Ingress](services, shop("web")); ok {
		t.Error("a Service is an Ingress")
	}
	if found := cachedByIndex[*discoveryv1.EndpointSlice](services, "unknown", "x"); found != nil {
		t.Errorf("an unknown index has %v", found)
	}
}

func TestTheAPIServersServiceIsNamedKubernetesInDefault(t *testing.T) {
	for name, test := range map[string]struct {
		namespace, name string
		want            bool
	}{
		"the API server's":                {"default", "kubernetes", false},
		"another Service of default":      {"default", "web", true},
		"one of that name in a namespace": {"shop", "kubernetes", true},
	} {
		service := web(func(s *corev1.Service) { s.Namespace, s.Name = test.namespace, test.name })
		if got := (original{service: service}).eligible(); got != test.want {
			t.Errorf("%s: eligible %t, want %t", name, got, test.want)
		}
	}
	if (original{service: web(selecting(nil))}).eligible() {
		t.Error("a Service without a selector is eligible")
	}
}
