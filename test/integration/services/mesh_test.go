package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// proxy makes a proxy with a label app.
func (s *story) proxy(app string) *corev1.Pod {
	s.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: app + "-", Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "app", Image: "app"}},
		},
	}
	s.create(pod)
	return pod
}

func (s *story) selects(service *corev1.Service, want map[string]string) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		err := shared.source.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
		if !maps.Equal(service.Spec.Selector, want) {
			return errors.Join(err, fmt.Errorf("selector %v, want %v", service.Spec.Selector, want))
		}
		return err
	})
}

// selectsNow checks a selector as it is.
func (s *story) selectsNow(service *corev1.Service, want map[string]string) {
	s.Helper()
	s.must(shared.source.Client.Get(s.Context(), client.ObjectKeyFromObject(service), service))
	if diff := cmp.Diff(want, service.Spec.Selector); diff != "" {
		s.Errorf("selector (-want +got):\n%s", diff)
	}
}

func TestAMergedServiceSelectsDelegatesUntilItIsNotMergedAnyMore(t *testing.T) {
	s := newStory(t)
	const mesh = "service.cilium.io/global"
	s.proxy("web")
	service, slice := s.followed("web")
	s.serves(s.c2, "web", "10.1.0.1", "10.3.0.1")
	user := service.DeepCopy()
	change(s, service, func(service *corev1.Service) { service.Annotations = map[string]string{mesh: "true"} })
	s.selects(service, delegatesOf("web"))
	if got := service.Annotations[v1alpha1.AnnotationOriginalSelector]; got != "app=web" {
		t.Errorf("original selector %q", got)
	}
	change(s, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = []discoveryv1.Endpoint{} }) // as the controller does then
	s.serves(s.c2, "web")
	there(s, s.c2, "web", &corev1.Service{}, func(c *corev1.Service) error {
		_, marked := c.Annotations[v1alpha1.AnnotationOriginalSelector]
		_, everywhere := c.Annotations[v1alpha1.AnnotationGlobal]
		if c.Annotations[mesh] != "true" || marked || everywhere {
			return fmt.Errorf("annotations of the copy: %v", c.Annotations)
		}
		return nil
	})
	for range 2 { // The first look would find no proxies, and the second still none; but there is one.
		s.later(service)
		s.looked()
		s.settled(s.c2)
		s.selectsNow(service, delegatesOf("web"))
		if err := ours(s.copied(s.c2, "web")); err != nil {
			t.Error(err)
		}
	}

	change(s, service, func(service *corev1.Service) { delete(service.Annotations, mesh) })
	s.selects(service, user.Spec.Selector)
	s.letGo(service)
	if len(service.Annotations) != 0 {
		t.Errorf("annotations that were not there: %v", service.Annotations)
	}
}

// letGo waits until no field of the Service is ours.
func (s *story) letGo(service *corev1.Service) {
	s.Helper()
	apiserver.Eventually(s.T, func(ctx context.Context) error {
		err := shared.source.Client.Get(ctx, client.ObjectKeyFromObject(service), service)
		for _, entry := range service.ManagedFields {
			if entry.Manager == v1alpha1.FieldOwner {
				return fmt.Errorf("we still own fields: %s", entry.FieldsV1.GetRawString())
			}
		}
		return err
	})
}

func TestAMergedServiceGoesWhereDelegatesAre(t *testing.T) {
	s := newStory(t)
	s.proxy("web")
	service := s.service("web", func(service *corev1.Service) { service.Annotations["service.cilium.io/global"] = "true" })
	s.slice("web", map[string]string{"10.2.0.1": s.c2.NodeName})
	s.chaperon(s.c2)
	s.selects(service, delegatesOf("web"))
	s.looked()
	s.settled(s.c3)
	s.absent(s.c3, &corev1.Service{}, "web")
	s.chaperon(s.c3)
	s.copied(s.c3, "web")
}

func TestTheSelectorOfAMergedServiceIsPutBackWhenItsNamespaceIsDisabled(t *testing.T) {
	s := newStory(t)
	s.proxy("web")
	service, _ := s.followed("web", func(service *corev1.Service) { service.Annotations["service.cilium.io/global"] = "true" })
	s.selects(service, delegatesOf("web"))
	s.looked() // The follower knows that it is rewritten.
	change(s, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}, func(namespace *corev1.Namespace) {
		delete(namespace.Labels, v1alpha1.LabelEnabledNamespace)
	})
	s.selects(service, map[string]string{"app": "web"})
	s.letGo(service)
	if diff := cmp.Diff(map[string]string{"service.cilium.io/global": "true"}, service.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	s.gone(s.c2, &corev1.Service{}, "web")
}

func TestWhatWasNotLetGoOfIsLetGoOfLater(t *testing.T) {
	s := newStory(t)
	service := s.service("web")
	mine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": s.namespace, "name": "web"},
		"spec": map[string]any{"selector": map[string]any{"app": "web"}},
	}}
	s.must(shared.source.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mine), client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership))
	s.letGo(service)
	s.selectsNow(service, map[string]string{"app": "web"})
}

func TestUsersMayWriteTheSelectorOfAMergedService(t *testing.T) {
	s := newStory(t)
	s.proxy("web")
	service, _ := s.followed("web", func(service *corev1.Service) { service.Annotations["io.cilium/global-service"] = "true" })
	s.selects(service, delegatesOf("web"))
	s.proxy("new")
	change(s, service, func(service *corev1.Service) { service.Spec.Selector["app"] = "new" })
	s.selects(service, delegatesOf("new"))
	// Something that insists is not fought with.
	change(s, service, func(service *corev1.Service) { service.Spec.Selector = map[string]string{"app": "new"} })
	s.selects(service, delegatesOf("new"))
	apiserver.Eventually(t, func(context.Context) error {
		if shared.events.count(s.namespace+"/web SelectorDisputed", "ignoreDifferences") != 1 {
			return errors.New("no event says so")
		}
		return nil
	})
	change(s, service, func(service *corev1.Service) { service.Spec.Selector = map[string]string{"app": "new"} })
	s.looked()
	s.selectsNow(service, map[string]string{"app": "new"})
}

func TestAMergedServiceWithoutProxiesIsPutBack(t *testing.T) {
	s := newStory(t)
	pod := s.proxy("web")
	service, slice := s.followed("web", func(service *corev1.Service) {
		service.Annotations["service.cilium.io/global"] = "true"
		service.Annotations[v1alpha1.AnnotationGlobal] = "true" // by the user: it stays
	})
	s.selects(service, delegatesOf("web"))
	s.must(shared.source.Client.Delete(t.Context(), pod))
	change(s, slice, func(slice *discoveryv1.EndpointSlice) { slice.Endpoints = []discoveryv1.Endpoint{} })
	apiserver.Eventually(t, func(context.Context) error {
		s.later(service) // The first look finds no proxies, and the second still none.
		if service.Spec.Selector["app"] != "web" {
			return fmt.Errorf("selector %v", service.Spec.Selector)
		}
		return nil
	})
	s.selects(service, map[string]string{"app": "web"})
	if diff := cmp.Diff(map[string]string{"service.cilium.io/global": "true", v1alpha1.AnnotationGlobal: "true"}, service.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}
