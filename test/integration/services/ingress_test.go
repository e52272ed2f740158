package services

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// shop makes an Ingress of the Service "web", with TLS.
func (s *story) shop() *networkingv1.Ingress {
	s.Helper()
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"app": "shop"}},
		Spec: networkingv1.IngressSpec{
			IngressClassName: ptr.To("nginx"),
			DefaultBackend: &networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Name: "http"}},
			},
			Rules: []networkingv1.IngressRule{{Host: "shop.example"}},
			TLS:   []networkingv1.IngressTLS{{Hosts: []string{"shop.example"}, SecretName: "shop-tls"}},
		},
	}
	s.create(ingress)
	return ingress
}

// touch has the follower look at the Ingress again.
func (s *story) touch(ingress *networkingv1.Ingress) {
	s.Helper()
	change(s, ingress, func(i *networkingv1.Ingress) { i.Labels["touched"] = i.ResourceVersion })
}

func (s *story) copiedIngress(p *place, name string) *networkingv1.Ingress {
	s.Helper()
	return there(s, p, name, &networkingv1.Ingress{}, func(c *networkingv1.Ingress) error { return ours(c) })
}

// holdsNothing waits until no Secrets are held in a target for the Ingress.
func (s *story) holdsNothing(p *place) {
	s.Helper()
	apiserver.Eventually(s.T, func(context.Context) error {
		if names := shared.secrets.of(p, "shop"); len(names) > 0 {
			return fmt.Errorf("still held: %v", names)
		}
		return nil
	})
}

func TestAnIngressFollowsItsServices(t *testing.T) {
	s := newStory(t)
	ingress := s.shop()
	s.settled(s.c2)
	s.gone(s.c2, &networkingv1.Ingress{}, "shop")
	service, _ := s.followed("web")
	c := there(s, s.c2, "shop", &networkingv1.Ingress{}, func(c *networkingv1.Ingress) error { return ours(c) })
	if diff := cmp.Diff(ingress.Spec, c.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"shop-tls"}, shared.secrets.of(s.c2, "shop")); diff != "" {
		t.Errorf("TLS Secrets (-want +got):\n%s", diff)
	}
	change(s, ingress, func(i *networkingv1.Ingress) { i.Spec.Rules[0].Host = "new.example" })
	there(s, s.c2, "shop", &networkingv1.Ingress{}, func(c *networkingv1.Ingress) error {
		if c.Spec.Rules[0].Host != "new.example" {
			return fmt.Errorf("host %q", c.Spec.Rules[0].Host)
		}
		return nil
	})
	s.must(shared.source.Client.Delete(t.Context(), service))
	s.gone(s.c2, &networkingv1.Ingress{}, "shop")
	s.gone(s.c3, &networkingv1.Ingress{}, "shop")
	if names := shared.secrets.of(s.c2, "shop"); len(names) > 0 {
		t.Errorf("TLS Secrets %v are still held", names)
	}
}

func TestAnIngressDoesNotExposeAServiceThatIsNotOurs(t *testing.T) {
	s := newStory(t)
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	s.must(shared.c2.Client.Create(t.Context(), theirs))
	ingress := s.shop()
	service, _ := s.followed("web")
	s.copiedIngress(s.c3, "shop")
	s.said("web", s.c2, "does not come from this cluster")
	s.touch(ingress)
	s.settled(s.c2)
	s.absent(s.c2, &networkingv1.Ingress{}, "shop")
	s.must(shared.c2.Client.Delete(t.Context(), theirs))
	change(s, service, func(service *corev1.Service) { service.Labels["tier"] = "front" })
	s.copiedIngress(s.c2, "shop")
}

func TestAnIngressComesAfterItsSecrets(t *testing.T) {
	s := newStory(t)
	shared.secrets.refuse(s.c2, true)
	ingress := s.shop()
	s.followed("web")
	s.copiedIngress(s.c3, "shop")
	s.said("shop", s.c2, `the TLS Secret "shop-tls" exists there`)
	s.settled(s.c2)
	s.absent(s.c2, &networkingv1.Ingress{}, "shop")
	shared.secrets.refuse(s.c2, false)
	s.touch(ingress)
	s.copiedIngress(s.c2, "shop")
}

func TestSecretsAreBroughtAnewWithARefusedIngress(t *testing.T) {
	s := newStory(t)
	theirs := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"},
		Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "theirs", Port: networkingv1.ServiceBackendPort{Number: 1}},
		}},
	}
	s.must(shared.c2.Client.Create(t.Context(), theirs))
	ingress := s.shop()
	s.followed("web")
	s.said("shop", s.c2, "does not come from this cluster")
	s.holdsNothing(s.c2)
	s.must(shared.c2.Client.Delete(t.Context(), theirs))
	s.touch(ingress)
	s.copiedIngress(s.c2, "shop")
	if diff := cmp.Diff([]string{"shop-tls"}, shared.secrets.of(s.c2, "shop")); diff != "" {
		t.Errorf("TLS Secrets (-want +got):\n%s", diff)
	}
}

func TestATargetThatIsGoneHoldsNoSecrets(t *testing.T) {
	s := newStory(t)
	s.shop()
	s.followed("web")
	s.copiedIngress(s.c2, "shop")
	s.copiedIngress(s.c3, "shop")
	s.c2.disengage()
	s.holdsNothing(s.c2)
	if diff := cmp.Diff([]string{"shop-tls"}, shared.secrets.of(s.c3, "shop")); diff != "" {
		t.Errorf("TLS Secrets of the other target (-want +got):\n%s", diff)
	}
}
