package services

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func delegatesOf(app string) map[string]string {
	return map[string]string{"multicluster.admiralty.io/app": app, v1alpha1.LabelParentClusterID: sourceID}
}

func TestAServiceReachesThePodsOfAllClusters(t *testing.T) {
	_, c2, c3 := engaged(t)
	service, slice := createFollowed(t, c2, c3, "web", func(service *corev1.Service) {
		service.Spec.Type = corev1.ServiceTypeNodePort
	})
	c := waitForCopy(t, c2, service)
	env.ExpectEqual(t, "selector", delegatesOf("web"), c.Spec.Selector)
	if c.Spec.Type != corev1.ServiceTypeClusterIP || c.Spec.Ports[0].NodePort != 0 || c.Spec.ClusterIP == "" {
		t.Errorf("spec of the copy: %+v", c.Spec)
	}
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	waitForAddresses(t, c3, service, "10.1.0.1", "10.2.0.1")

	env.Change(t, source, slice, func(slice *discoveryv1.EndpointSlice) {
		slice.Endpoints = endpoints(map[string]string{"10.2.0.1": c2.NodeName, "10.3.0.2": c3.NodeName})
		for i := range slice.Endpoints {
			slice.Endpoints[i].Conditions.Ready = ptr.To(false)
		}
	})
	waitForAddresses(t, c2, service, "10.3.0.2!")
	waitForAddresses(t, c3, service, "10.2.0.1!")

	env.Change(t, source, service, func(service *corev1.Service) {
		service.Spec.Ports[0].Port = 81
		service.Labels["tier"] = "front"
	})
	changed := waitForCopy(t, c2, service, func(now *corev1.Service) error {
		if now.Spec.Ports[0].Port != 81 || now.Labels["tier"] != "front" {
			return fmt.Errorf("now %+v, labels %v", now.Spec, now.Labels)
		}
		return nil
	})
	env.ExpectEqual(t, "UID", c.UID, changed.UID)
	env.ExpectEqual(t, "cluster IP", c.Spec.ClusterIP, changed.Spec.ClusterIP)

	env.Delete(t, c2.Cluster, c) // Somebody deletes the copy.
	waitForCopy(t, c2, service, func(now *corev1.Service) error {
		if now.UID == c.UID {
			return errors.New("still the old one")
		}
		return nil
	})

	env.Delete(t, source, service)
	for _, target := range []*env.Target{c2, c3} {
		waitForNoCopy(t, target, service)
		waitForAddresses(t, target, service)
	}
}

func TestAHeadlessServiceStaysHeadless(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	service, _ := createFollowed(t, c2, c3, "db", func(service *corev1.Service) {
		service.Spec.ClusterIP = corev1.ClusterIPNone
		service.Spec.PublishNotReadyAddresses = true
		service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyPreferDualStack)
	})
	spec := waitForCopy(t, c2, service).Spec
	env.ExpectEqual(t, "cluster IP", corev1.ClusterIPNone, spec.ClusterIP)
	env.ExpectEqual(t, "publish not ready addresses", true, spec.PublishNotReadyAddresses)
	env.ExpectEqual(t, "IP family policy", ptr.To(corev1.IPFamilyPolicyPreferDualStack), spec.IPFamilyPolicy)
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")

	env.Delete(t, source, service)
	create(t, namespace, "db") // The slice still exists: no controller removes it.
	waitForCopy(t, c2, service, func(now *corev1.Service) error {
		if now.Spec.ClusterIP == corev1.ClusterIPNone || now.Spec.ClusterIP == "" {
			return fmt.Errorf("cluster IP %q", now.Spec.ClusterIP)
		}
		return nil
	})
}

func TestAServiceGoesWhereDelegatesAre(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	web, plain := create(t, namespace, "web"), create(t, namespace, "plain")
	slice(t, web, map[string]string{"10.2.0.1": c2.NodeName})
	slice(t, plain, map[string]string{"10.1.0.1": "node"})
	createChaperon(t, namespace, c2)
	waitForCopy(t, c2, web)
	waitForWorkers(t, namespace, c2)
	waitForWorkers(t, namespace, c3)
	waitForNoCopy(t, c3, web)
	waitForNoCopy(t, c2, plain)
	createChaperon(t, namespace, c3)
	waitForCopy(t, c3, web)
	waitForAddresses(t, c3, web, "10.2.0.1")
}

// TestAServiceGoesAheadOfItsFirstPod has containers that look for the Service's variables when they start.
func TestAServiceGoesAheadOfItsFirstPod(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	service := create(t, namespace, "web")
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "web-1")}
	pod.Labels = map[string]string{"app": "web"}
	waitForWorkers(t, namespace, c2) // The source knows the Service.
	expectNoCopy(t, c2, service)
	follower.Ensure(t.Context(), pod, c2.Target)
	if copied := waitForCopy(t, c2, service); !env.Exists(t, c2.Cluster, copied) || copied.Spec.ClusterIP == "" {
		t.Errorf("the pod would get the variables of %+v", copied.Spec)
	}
	expectNoCopy(t, c3, service)
}

func TestAGlobalServiceGoesEverywhere(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	service := create(t, namespace, "web", annotated(v1alpha1.AnnotationGlobal))
	slice(t, service, map[string]string{"10.1.0.1": "node"})
	waitForAddresses(t, c2, service, "10.1.0.1")
	waitForCopy(t, c3, service)
	env.Change(t, source, service, func(service *corev1.Service) {
		service.Annotations[v1alpha1.AnnotationGlobal] = "false"
	})
	waitForCopy(t, c2, service, func(c *corev1.Service) error {
		if value, ok := c.Annotations[v1alpha1.AnnotationGlobal]; ok {
			return fmt.Errorf("the copy is still annotated: %q", value)
		}
		return nil
	})
	passTime(t, service)
	waitForNoCopy(t, c2, service)
	waitForAddresses(t, c2, service)
}

// TestACopyWithoutPodsKeepsItsAddress has a Service that is scaled to zero. Its clients are other delegates.
func TestACopyWithoutPodsKeepsItsAddress(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	service, slice := createFollowed(t, c2, c3, "web")
	ingress := createShop(t, namespace)
	c, entry := waitForCopy(t, c2, service), waitForCopy(t, c2, ingress)
	setEndpoints(t, slice, nil)
	waitForAddresses(t, c2, service)
	passTime(t, service)
	waitForWorkers(t, namespace, c2)
	passTime(t, service)
	waitForWorkers(t, namespace, c2)
	setEndpoints(t, slice, map[string]string{"10.2.0.1": c2.NodeName, "10.3.0.1": c3.NodeName})
	waitForAddresses(t, c2, service, "10.3.0.1")
	now := waitForCopy(t, c2, service)
	env.ExpectEqual(t, "UID of the copy", c.UID, now.UID)
	env.ExpectEqual(t, "cluster IP of the copy", c.Spec.ClusterIP, now.Spec.ClusterIP)
	env.ExpectEqual(t, "UID of the Ingress", entry.UID, waitForCopy(t, c2, ingress).UID)
}

func TestACopyGoesAWhileAfterTheLastDelegate(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	service := create(t, namespace, "web")
	slice(t, service, map[string]string{"10.2.0.1": c2.NodeName, "10.3.0.1": c3.NodeName})
	last := createChaperon(t, namespace, c2)
	createChaperon(t, namespace, c3)
	waitForCopy(t, c2, service)
	env.Delete(t, c2.Cluster, last)
	env.Eventually(t, func(context.Context) error {
		passTime(t, service)
		if env.Exists(t, c2.Cluster, namesake(service)) {
			return errors.New("the copy still exists")
		}
		return nil
	})
	waitForCopy(t, c3, service)
}

// createTheirs creates a Service of the users of a target.
func createTheirs(t *testing.T, in *env.Target, name string) *corev1.Service {
	t.Helper()
	theirs := newService(in.Key.Namespace, name, func(service *corev1.Service) {
		service.Spec.Selector = map[string]string{"app": "theirs"}
	})
	env.Create(t, in.Cluster, theirs)
	return theirs
}

func TestAServiceOfATargetsUsersIsLeftAlone(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	theirs := createTheirs(t, c2, "web")
	service, _ := createFollowed(t, c2, c3, "web")
	waitForCopy(t, c3, service)
	waitForReport(t, service, c2, "does not come from this cluster")
	waitForWorkers(t, namespace, c2)
	env.ExpectEqual(t, "their Service", theirs, env.Get(t, c2.Cluster, namesake(theirs)))
	waitForAddresses(t, c2, service)
	if all := reports(service, c2, ""); len(all) != 1 {
		t.Errorf("the events are %q, want 1", all)
	}
}

// TestACopyThatHasLostItsMarkGetsItBack has targets without the admission policy.
func TestACopyThatHasLostItsMarkGetsItBack(t *testing.T) {
	_, c2, c3 := engaged(t)
	service, _ := createFollowed(t, c2, c3, "web")
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	for name, left := range map[string]map[string]string{
		"the mark": {"theirs": "1"}, "all annotations": nil,
	} {
		t.Run(name, func(t *testing.T) {
			c := waitForCopy(t, c2, service)
			env.Change(t, c2.Cluster, c, func(c *corev1.Service) { c.Annotations = left })
			now := waitForCopy(t, c2, service, func(c *corev1.Service) error {
				if got := c.Annotations[v1alpha1.AnnotationFollowedBy]; got != sourceUser {
					return fmt.Errorf("followed by %q", got)
				}
				return nil
			})
			env.ExpectEqual(t, "UID of the copy", c.UID, now.UID)
			env.ExpectEqual(t, "their annotation", left["theirs"], now.Annotations["theirs"])
		})
	}
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
}

func TestACopyIsRemovedThoughItsServiceWasDeletedWhileTheTargetWasAway(t *testing.T) {
	_, c2, c3 := engaged(t)
	service, _ := createFollowed(t, c2, c3, "web")
	waitForAddresses(t, c2, service, "10.1.0.1", "10.3.0.1")
	c2.Disengage()
	env.Delete(t, source, service)
	waitForNoCopy(t, c3, service)
	waitForCopy(t, c2, service)
	doEngage(t, c2)
	waitForNoCopy(t, c2, service)
	waitForAddresses(t, c2, service)
}

func TestNothingIsCopiedIntoTheSourceItself(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	c2.Customize = func(e *engage.Target) { e.Itself = true }
	doEngage(t, c2)
	service := create(t, namespace, "web", annotated(v1alpha1.AnnotationGlobal))
	waitForCopy(t, c3, service)
	waitForNoCopy(t, c2, service)
}

func TestAnExportedServiceIsLeftToTheMesh(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	export := &unstructured.Unstructured{}
	export.SetAPIVersion("multicluster.x-k8s.io/v1alpha1")
	export.SetKind("ServiceExport")
	export.SetNamespace(namespace)
	export.SetName("web")
	env.Create(t, source, export)
	waitForWorkers(t, namespace, c2)
	exported, _ := createFollowed(t, c2, c3, "web")
	other, _ := createFollowed(t, c2, c3, "other")
	waitForCopy(t, c2, other)
	waitForWorkers(t, namespace, c2)
	waitForNoCopy(t, c2, exported)
	env.Delete(t, source, export)
	waitForCopy(t, c2, exported)
}

func TestFinalizersOfTheOldSystemAreRemoved(t *testing.T) {
	namespace, _, _ := engaged(t)
	service := create(t, namespace, "web", func(service *corev1.Service) {
		service.Finalizers = []string{"multicluster.admiralty.io/c2-abcde", "example.com/theirs"}
	})
	env.WaitFor(t, source, service, func(service *corev1.Service) error {
		if len(service.Finalizers) != 1 || service.Finalizers[0] != "example.com/theirs" {
			return fmt.Errorf("finalizers %v", service.Finalizers)
		}
		return nil
	})
}

func TestAClusterTargetGetsAServiceOnceItHasTheNamespace(t *testing.T) {
	namespace, c2, c3 := engaged(t)
	c2.Disengage()
	c3.Disengage()
	c2, c3 = newTarget("", "c2", cluster2), newTarget("", "c3", cluster3)
	doEngage(t, c2)
	doEngage(t, c3)
	bare := env.Namespace(t, env.Enabled(), source, cluster3)
	service := create(t, bare, "web", annotated(v1alpha1.AnnotationGlobal))
	waitForCopy(t, c3, service)
	waitForWorkers(t, namespace, c2)
	if all := events.With(bare + "/web"); len(all) > 0 {
		t.Errorf("events about a namespace that does not exist: %q", all)
	}
	env.Create(t, cluster2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: bare}})
	createChaperon(t, bare, c2)
	waitForCopy(t, c2, service)
}
