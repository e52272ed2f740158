package services

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func delegatesOf(app string) map[string]string {
	return map[string]string{"multicluster.admiralty.io/app": app, v1alpha1.LabelParentClusterID: clusterID}
}

func TestAServiceReachesThePodsOfAllClusters(t *testing.T) {
	s := newStory(t)
	service, slice := s.followed("web", func(service *corev1.Service) { service.Spec.Type = corev1.ServiceTypeNodePort })
	c := s.copied(s.c2, "web")
	if diff := cmp.Diff(delegatesOf("web"), c.Spec.Selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}
	if c.Spec.Type != corev1.ServiceTypeClusterIP || c.Spec.Ports[0].NodePort != 0 || c.Spec.ClusterIP == "" {
		t.Errorf("spec of the copy: %+v", c.Spec)
	}
	s.serves(s.c2, "web", "10.1.0.1", "10.3.0.1")
	s.serves(s.c3, "web", "10.1.0.1", "10.2.0.1")

	change(s, slice, func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints = endpoints(map[string]string{"10.2.0.1": s.c2.NodeName, "10.3.0.2": s.c3.NodeName})
		for i := range slice.Endpoints {
			slice.Endpoints[i].Conditions.Ready = ptr.To(false)
		}
	})
	s.serves(s.c2, "web", "10.3.0.2!")
	s.serves(s.c3, "web", "10.2.0.1!")

	change(s, service, func(service *corev1.Service) {
		service.Spec.Ports[0].Port = 81
		service.Labels["tier"] = "front"
	})
	there(s, s.c2, "web", &corev1.Service{}, func(now *corev1.Service) error {
		if now.Spec.Ports[0].Port != 81 || now.Labels["tier"] != "front" || now.UID != c.UID || now.Spec.ClusterIP != c.Spec.ClusterIP {
			return fmt.Errorf("now %+v, labels %v", now.Spec, now.Labels)
		}
		return nil
	})

	s.must(s.c2.cluster.Client.Delete(t.Context(), s.copied(s.c2, "web"))) // by somebody
	there(s, s.c2, "web", &corev1.Service{}, func(now *corev1.Service) error {
		if now.UID == c.UID {
			return errors.New("still the old one")
		}
		return nil
	})

	s.must(shared.source.Client.Delete(t.Context(), service))
	for _, p := range []*place{s.c2, s.c3} {
		s.gone(p, &corev1.Service{}, "web")
		s.serves(p, "web")
	}
}

func TestAHeadlessServiceStaysHeadless(t *testing.T) {
	s := newStory(t)
	service, _ := s.followed("db", func(service *corev1.Service) {
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.PublishNotReadyAddresses = true
		service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	})
	c := s.copied(s.c2, "db")
	if c.Spec.ClusterIP != corev1.ClusterIPNone || !c.Spec.PublishNotReadyAddresses || *c.Spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack {
		t.Errorf("spec of the copy: %+v", c.Spec)
	}
	s.serves(s.c2, "db", "10.1.0.1", "10.3.0.1")

	s.must(shared.source.Client.Delete(t.Context(), service))
	s.service("db") // The slice, which no controller removes here, is still there.
	there(s, s.c2, "db", &corev1.Service{}, func(now *corev1.Service) error {
		if now.Spec.ClusterIP == corev1.ClusterIPNone || now.Spec.ClusterIP == "" {
			return fmt.Errorf("cluster IP %q", now.Spec.ClusterIP)
		}
		return nil
	})
}

func TestAServiceGoesWhereDelegatesAre(t *testing.T) {
	s := newStory(t)
	s.service("web")
	s.slice("web", map[string]string{"10.2.0.1": s.c2.NodeName})
	s.service("plain")
	s.slice("plain", map[string]string{"10.1.0.1": "node"})
	s.chaperon(s.c2)
	s.copied(s.c2, "web")
	s.settled(s.c2)
	s.settled(s.c3)
	s.gone(s.c3, &corev1.Service{}, "web")
	s.gone(s.c2, &corev1.Service{}, "plain")
	s.chaperon(s.c3)
	s.copied(s.c3, "web")
	s.serves(s.c3, "web", "10.2.0.1")
}

func TestAGlobalServiceGoesEverywhere(t *testing.T) {
	s := newStory(t)
	service := s.service("web", func(service *corev1.Service) { service.Annotations[v1alpha1.AnnotationGlobal] = "true" })
	s.slice("web", map[string]string{"10.1.0.1": "node"})
	s.serves(s.c2, "web", "10.1.0.1")
	s.copied(s.c3, "web")
	change(s, service, func(service *corev1.Service) { service.Annotations[v1alpha1.AnnotationGlobal] = "false" })
	there(s, s.c2, "web", &corev1.Service{}, func(c *corev1.Service) error {
		if value, ok := c.Annotations[v1alpha1.AnnotationGlobal]; ok {
			return fmt.Errorf("the copy is still annotated: %q", value)
		}
		return nil
	})
	s.later(service)
	s.gone(s.c2, &corev1.Service{}, "web")
	s.serves(s.c2, "web")
}

// later lets the time pass in which a copy stays without a reason, and something happen.
func (s *story) later(service *corev1.Service) {
	s.Helper()
	shared.clock.SetTime(shared.clock.Now().Add(2*time.Minute + time.Second))
	change(s, service, func(service *corev1.Service) {
		service.Labels["looked-at"] = strconv.FormatInt(shared.clock.Now().Unix(), 10)
	})
}

func TestACopySurvivesAMomentWithoutPods(t *testing.T) {
	s := newStory(t)
	service, slice := s.followed("web")
	c := s.copied(s.c2, "web")
	nodes := map[string]string{"10.2.0.1": s.c2.NodeName, "10.3.0.1": s.c3.NodeName}
	change(s, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = []discoveryv1.Endpoint{} })
	s.serves(s.c2, "web")
	change(s, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = endpoints(nodes) })
	s.serves(s.c2, "web", "10.3.0.1")
	s.later(service)
	s.settled(s.c2)
	if s.copied(s.c2, "web").UID != c.UID {
		t.Error("the copy is another one")
	}
	change(s, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = []discoveryv1.Endpoint{} })
	s.serves(s.c2, "web")
	s.later(service)
	s.gone(s.c2, &corev1.Service{}, "web")
}

func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	s := newStory(t)
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	s.must(s.c2.cluster.Client.Create(t.Context(), theirs))
	s.followed("web")
	s.copied(s.c3, "web")
	about := s.namespace + "/web NotFollowed: Target " + s.namespace + "/c2"
	apiserver.Eventually(t, func(context.Context) error {
		if shared.events.count(about, "does not come from this cluster") == 0 {
			return errors.New("no event says so")
		}
		return nil
	})
	s.settled(s.c2)
	there(s, s.c2, "web", &corev1.Service{}, func(now *corev1.Service) error {
		if now.ResourceVersion != theirs.ResourceVersion {
			return fmt.Errorf("it was touched: %+v", now)
		}
		return nil
	})
	s.serves(s.c2, "web")
	if n := shared.events.count(about, ""); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestWhatWasLeftWhileNobodyLookedIsRemoved(t *testing.T) {
	s := newStory(t)
	service, _ := s.followed("web")
	s.serves(s.c2, "web", "10.1.0.1", "10.3.0.1")
	s.c2.disengage()
	s.must(shared.source.Client.Delete(t.Context(), service))
	s.gone(s.c3, &corev1.Service{}, "web")
	s.copied(s.c2, "web")
	again := s.engage(shared.c2)
	s.gone(again, &corev1.Service{}, "web")
	s.serves(again, "web")
}

func TestNothingIsCopiedIntoTheSourceItself(t *testing.T) {
	s := newStory(t)
	s.c2.disengage()
	s.c2 = s.engage(shared.c2, func(target *engage.Target) { target.Itself = true })
	s.service("web", func(service *corev1.Service) { service.Annotations[v1alpha1.AnnotationGlobal] = "true" })
	s.copied(s.c3, "web")
	s.gone(s.c2, &corev1.Service{}, "web")
}

func TestAnExportedServiceIsLeftToTheMesh(t *testing.T) {
	s := newStory(t)
	export := &unstructured.Unstructured{}
	export.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
	export.SetKind("ServiceExport")
	export.SetName("web")
	s.create(export)
	s.settled(s.c2)
	s.followed("web")
	s.followed("other")
	s.copied(s.c2, "other")
	s.settled(s.c2)
	s.gone(s.c2, &corev1.Service{}, "web")
	s.must(shared.source.Client.Delete(t.Context(), export))
	s.copied(s.c2, "web")
}

func TestFinalizersOfTheOldSystemAreRemoved(t *testing.T) {
	s := newStory(t)
	service := s.service("web", func(service *corev1.Service) {
		service.Finalizers = []string{"multicluster.admiralty.io/c2-abcde", "example.com/theirs"}
	})
	apiserver.Eventually(t, func(ctx context.Context) error {
		err := shared.source.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
		if len(service.Finalizers) != 1 || service.Finalizers[0] != "example.com/theirs" {
			return errors.Join(err, fmt.Errorf("finalizers %v", service.Finalizers))
		}
		return err
	})
}

func TestANamespaceThatATargetLacksIsNotWanted(t *testing.T) {
	s := newStory(t)
	bare := shared.source.Namespace(t, map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue})
	everywhere := func(target *engage.Target) { target.Key.Namespace = "" } // a ClusterTarget
	s.c2.disengage()
	s.c3.disengage()
	c2, c3 := s.engage(shared.c2, everywhere), s.engage(shared.c3, everywhere)
	s.must(shared.c3.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bare}}))
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: bare, Name: "web", Annotations: map[string]string{v1alpha1.AnnotationGlobal: "true"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	s.must(shared.source.Client.Create(t.Context(), service))
	in := &story{T: t, namespace: bare, c2: c2, c3: c3}
	in.copied(c3, "web")
	s.settled(c2)
	if n := shared.events.count(bare+"/web", ""); n > 0 {
		t.Errorf("%d events about a namespace that is not there", n)
	}
	s.must(shared.c2.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bare}}))
	in.chaperon(c2)
	in.copied(c2, "web")
}
