package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const cilium = "service.cilium.io/global"

// createProxy creates a proxy with a label app.
func createProxy(t *testing.T, namespace, app string) *corev1.Pod {
	t.Helper()
	pod := env.Proxy(namespace, "", func(pod *corev1.Pod) {
		pod.GenerateName, pod.Labels = app+"-", map[string]string{"app": app}
		pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	})
	env.Create(t, source, pod)
	return pod
}

// waitForSelector waits until a Service of the source has a selector.
func waitForSelector(t *testing.T, service *corev1.Service, want map[string]string) {
	t.Helper()
	env.WaitFor(t, source, service, func(service *corev1.Service) error {
		if !maps.Equal(service.Spec.Selector, want) {
			return fmt.Errorf("selector %v, want %v", service.Spec.Selector, want)
		}
		return nil
	})
}

// expectSelector checks the selector that a Service of the source has now.
func expectSelector(t *testing.T, service *corev1.Service, want map[string]string) {
	t.Helper()
	env.ExpectEqual(t, "selector", want, env.Get(t, source, service).Spec.Selector)
}

// setSelector plays a user who writes the selector of a Service.
func setSelector(t *testing.T, service *corev1.Service, app string) {
	t.Helper()
	env.Change(t, source, service, func(service *corev1.Service) {
		service.Spec.Selector = map[string]string{"app": app}
	})
}

// waitForNoOwnFields waits until no field of the Service is ours.
func waitForNoOwnFields(t *testing.T, service *corev1.Service) {
	t.Helper()
	env.WaitFor(t, source, service, func(service *corev1.Service) error {
		for _, entry := range service.ManagedFields {
			if entry.Manager == v1alpha1.FieldOwner {
				return fmt.Errorf("we still own fields: %s", entry.FieldsV1.GetRawString())
			}
		}
		return nil
	})
}

func TestAMergedServiceSelectsDelegatesUntilItIsNotMergedAnyMore(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	createProxy(t, namespace, "web")
	service, slice := createFollowed(t, c2, c3, "web")
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	original := service.DeepCopy()
	env.Change(t, source, service, func(service *corev1.Service) {
		service.Annotations = map[string]string{cilium: "true"}
	})
	waitForSelector(t, service, delegatesOf("web"))
	if got := service.Annotations[v1alpha1.AnnotationOriginalSelector]; got != "app=web" {
		t.Errorf("original selector %q", got)
	}
	setEndpoints(t, slice, nil) // The controller does the same.
	waitForAddresses(t, c2, service)
	waitForCopy(t, c2, service, func(c *corev1.Service) error {
		_, marked := c.Annotations[v1alpha1.AnnotationOriginalSelector]
		_, everywhere := c.Annotations[v1alpha1.AnnotationGlobal]
		if c.Annotations[cilium] != "true" || marked || everywhere {
			return fmt.Errorf("annotations of the copy: %v", c.Annotations)
		}
		return nil
	})
	for range 2 { // Two looks without proxies would restore it, but there is a proxy.
		passTime(t, service)
		waitForSource(t, namespace)
		waitForWorkers(t, namespace, c2)
		expectSelector(t, service, delegatesOf("web"))
		waitForCopy(t, c2, service)
	}

	env.Change(t, source, service, func(service *corev1.Service) { delete(service.Annotations, cilium) })
	waitForSelector(t, service, original.Spec.Selector)
	waitForNoOwnFields(t, service)
	if len(service.Annotations) != 0 {
		t.Errorf("annotations that were not there: %v", service.Annotations)
	}
}

func TestAMergedServiceGoesWhereDelegatesAre(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	createProxy(t, namespace, "web")
	service := create(t, namespace, "web", annotated(cilium))
	slice(t, service, map[string]string{"10.2.0.1": c2.NodeName})
	createChaperon(t, namespace, c2)
	waitForSelector(t, service, delegatesOf("web"))
	waitForSource(t, namespace)
	waitForWorkers(t, namespace, c3)
	expectNoCopy(t, c3, service)
	createChaperon(t, namespace, c3)
	waitForCopy(t, c3, service)
}

func TestTheSelectorOfAMergedServiceIsRestoredWhenItsNamespaceIsDisabled(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	createProxy(t, namespace, "web")
	service, _ := createFollowed(t, c2, c3, "web", annotated(cilium))
	waitForSelector(t, service, delegatesOf("web"))
	waitForSource(t, namespace) // The follower knows that it is rewritten.
	enabled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	env.Change(t, source, enabled, func(namespace *corev1.Namespace) {
		delete(namespace.Labels, v1alpha1.LabelEnabledNamespace)
	})
	waitForSelector(t, service, map[string]string{"app": "web"})
	waitForNoOwnFields(t, service)
	env.ExpectEqual(t, "annotations", map[string]string{cilium: "true"}, service.Annotations)
	waitForNoCopy(t, c2, service)
}

func TestFieldsOfAServiceThatWereNotReleasedAreReleasedLater(t *testing.T) {
	namespace, _, _ := engaged(t)
	service := create(t, namespace, "web")
	mine := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": namespace, "name": "web"},
		"spec": map[string]any{"selector": map[string]any{"app": "web"}},
	}}
	env.Must(t, source.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(mine),
		client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership))
	waitForNoOwnFields(t, service)
	expectSelector(t, service, map[string]string{"app": "web"})
}

func TestUsersMayWriteTheSelectorOfAMergedService(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	createProxy(t, namespace, "web")
	service, _ := createFollowed(t, c2, c3, "web", annotated("io.cilium/global-service"))
	waitForSelector(t, service, delegatesOf("web"))
	createProxy(t, namespace, "new")
	env.Change(t, source, service, func(service *corev1.Service) { service.Spec.Selector["app"] = "new" })
	waitForSelector(t, service, delegatesOf("new"))
	// The follower does not fight with a writer that insists.
	setSelector(t, service, "new")
	waitForSelector(t, service, delegatesOf("new"))
	env.Eventually(t, func(context.Context) error {
		if len(events.With(namespace+"/web SelectorDisputed", "ignoreDifferences")) != 1 {
			return errors.New("no event reports the dispute")
		}
		return nil
	})
	setSelector(t, service, "new")
	waitForSource(t, namespace)
	expectSelector(t, service, map[string]string{"app": "new"})
}

func TestTheSelectorOfAMergedServiceWithoutProxiesIsRestored(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	pod := createProxy(t, namespace, "web")
	service, slice := createFollowed(t, c2, c3, "web", func(service *corev1.Service) {
		service.Annotations[cilium] = "true"
		service.Annotations[v1alpha1.AnnotationGlobal] = "true" // The user set it: it stays.
	})
	waitForSelector(t, service, delegatesOf("web"))
	env.Delete(t, source, pod)
	setEndpoints(t, slice, nil)
	env.Eventually(t, func(context.Context) error {
		passTime(t, service) // The second look that finds no proxies restores the selector.
		if service.Spec.Selector["app"] != "web" {
			return fmt.Errorf("selector %v", service.Spec.Selector)
		}
		return nil
	})
	waitForSelector(t, service, map[string]string{"app": "web"})
	want := map[string]string{cilium: "true", v1alpha1.AnnotationGlobal: "true"}
	env.ExpectEqual(t, "annotations", want, service.Annotations)
}
