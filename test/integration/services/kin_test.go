package services

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// called gives a target another name.
func called(name string) func(*engage.Target) {
	return func(target *engage.Target) {
		target.Key.Name = name
		target.NodeName, target.Hash = translate.VirtualNodeName(target.Key), translate.TargetHash(target.Key)
	}
}

// known says which cluster a target leads to.
func known(target *engage.Target) { target.ClusterID = target.Config.Host }

// knownStory is one whose target c2 is known to lead to that cluster.
func knownStory(t *testing.T) *story {
	t.Helper()
	s := newStory(t)
	s.c2.disengage()
	s.c2 = s.engage(shared.c2, known)
	return s
}

// lookedAfter waits until a target looks after the very copy.
func (s *story) lookedAfter(p *place, before, now client.Object) {
	s.Helper()
	there(s, p, before.GetName(), now, func(now client.Object) error {
		if now.GetUID() != before.GetUID() || now.GetLabels()[v1alpha1.LabelTargetHash] != p.Hash {
			return fmt.Errorf("labels %v, UID %s, was %s; want target hash %s", now.GetLabels(), now.GetUID(), before.GetUID(), p.Hash)
		}
		return nil
	})
}

func TestATargetThatIsRenamedTakesOverWhatTheOldOneMade(t *testing.T) {
	for name, first := range map[string]bool{"the old one goes first": true, "the new one comes first": false} {
		t.Run(name, func(t *testing.T) {
			s := knownStory(t)
			s.shop()
			_, slice := s.followed("web")
			s.serves(s.c2, "web", "10.1.0.1", "10.3.0.1")
			service, ingress := s.copied(s.c2, "web"), s.copiedIngress(s.c2, "shop")
			if first {
				s.c2.disengage()
			}
			eu := s.engage(shared.c2, known, called("eu"))
			s.c2.disengage()
			s.chaperon(eu)
			change(s, slice, func(slice *discoveryv1.EndpointSlice) {
				slice.Endpoints = endpoints(map[string]string{"10.2.0.9": eu.NodeName, "10.3.0.1": s.c3.NodeName, "10.1.0.9": "node"})
			})
			s.serves(eu, "web", "10.1.0.9", "10.3.0.1")
			s.lookedAfter(eu, service, &corev1.Service{})
			s.lookedAfter(eu, ingress, &networkingv1.Ingress{})
		})
	}
}

func TestWhatARenamedTargetMadeGoesWithItsOriginal(t *testing.T) {
	s := knownStory(t)
	s.shop()
	service, _ := s.followed("web")
	s.serves(s.c2, "web", "10.1.0.1", "10.3.0.1")
	s.copiedIngress(s.c2, "shop")
	s.c2.disengage()
	s.must(shared.source.Client.Delete(t.Context(), service))
	s.must(shared.source.Client.Delete(t.Context(), &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}))
	eu := s.engage(shared.c2, known, called("eu"))
	s.gone(eu, &corev1.Service{}, "web")
	s.gone(eu, &networkingv1.Ingress{}, "shop")
	s.serves(eu, "web")
}

func TestACopyIsHandedOverToAnotherTargetOfTheSameCluster(t *testing.T) {
	s := knownStory(t)
	eu := s.engage(shared.c2, known, called("eu"))
	s.shop()
	service := s.service("web")
	s.slice("web", map[string]string{"10.2.0.1": s.c2.NodeName, "10.2.0.2": eu.NodeName, "10.1.0.1": "node"})
	chaperon := s.chaperon(s.c2)
	s.serves(s.c2, "web", "10.1.0.1", "10.2.0.2")
	c, ingress := s.copied(s.c2, "web"), s.copiedIngress(s.c2, "shop")
	s.chaperon(eu)
	s.serves(s.c2, "web", "10.1.0.1", "10.1.0.1", "10.2.0.1", "10.2.0.2") // each the other's, too
	s.lookedAfter(s.c2, c, &corev1.Service{})

	s.must(shared.c2.Client.Delete(t.Context(), chaperon))
	apiserver.Eventually(t, func(ctx context.Context) error {
		s.later(service)
		now := &corev1.Service{}
		if err := shared.c2.Client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: "web"}, now); err != nil {
			return err
		}
		if now.Labels[v1alpha1.LabelTargetHash] != eu.Hash {
			return errors.New("it is still that of the target without delegates")
		}
		return nil
	})
	s.lookedAfter(eu, c, &corev1.Service{})
	s.lookedAfter(eu, ingress, &networkingv1.Ingress{})
	s.serves(eu, "web", "10.1.0.1", "10.2.0.1")
}
