package uninstall

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "uid"}
}

// ofManager are the Deployment and the pod of a manager with so many replicas that are ready.
func ofManager(ready int32) (*appsv1.Deployment, *corev1.Pod) {
	deployment := &appsv1.Deployment{ObjectMeta: named("admiralty", "manager")}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "manager"}}
	deployment.Status.ReadyReplicas = ready
	pod := &corev1.Pod{ObjectMeta: named("admiralty", "manager-1")}
	pod.Labels = map[string]string{"app": "manager"}
	return deployment, pod
}

func virtualNode(status corev1.ConditionStatus) *corev1.Node {
	node := &corev1.Node{ObjectMeta: named("", "admiralty-c2")}
	node.Labels = map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue}, {Type: corev1.NodeReady, Status: status},
	}
	return node
}

// everything is what a release leaves in a cluster that was a source and a target.
func everything() []client.Object {
	deployment, managerPod := ofManager(1)
	proxy := unbound()
	proxy.Spec.NodeName = "admiralty-c2"
	service := &corev1.Service{ObjectMeta: named("shop", "web")}
	service.Annotations = map[string]string{v1alpha1.AnnotationOriginalSelector: "app=web"}
	service.Spec.Selector = map[string]string{
		"multicluster.admiralty.io/app": "web", v1alpha1.LabelParentClusterID: "c1",
	}
	return []client.Object{
		deployment, managerPod, proxy, service, virtualNode(corev1.ConditionTrue),
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named("", "pods")},
		&coordinationv1.Lease{ObjectMeta: named(corev1.NamespaceNodeLease, "admiralty-c2")},
		&coordinationv1.Lease{ObjectMeta: named("admiralty", "leader")},
		&v1alpha1.PodChaperon{ObjectMeta: named("shop", "of-a-source")},
		&corev1.Node{ObjectMeta: named("", "worker")},
	}
}

// newRelease returns a cluster with everything, whose manager stops when it is to.
func newRelease(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, 5*time.Minute, everything()...)
	c.Configuration.LeaderElection.Name = "leader"
	c.onScale = func() {
		_, pod := ofManager(1)
		if err := c.client.Delete(t.Context(), pod); err != nil {
			t.Error(err)
		}
	}
	return c
}

func TestAReleaseEndsInThisOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newRelease(t)
		if err := c.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"delete MutatingWebhookConfiguration pods", "delete Pod web",
			`scale manager {"spec":{"replicas":0}}`, "delete Pod manager-1",
			"delete Node admiralty-c2", "delete Lease admiralty-c2",
			"delete PodChaperon of-a-source", "delete Lease leader",
		}
		if diff := cmp.Diff(want, c.done); diff != "" {
			t.Errorf("unexpected writes (-want +got):\n%s", diff)
		}
		service := &corev1.Service{}
		if err := c.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, service); err != nil {
			t.Fatal(err)
		}
		if service.Spec.Selector["app"] != "web" {
			t.Errorf("the selector of a Service is %v", service.Spec.Selector)
		}
		if len(c.copies.Actions()) == 0 {
			t.Error("nobody looked for copies")
		}
	})
}

func TestARoleThatAClusterDoesNotHaveIsLeftAlone(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(*cluster)
		want, never string
	}{
		"no source": {
			func(c *cluster) { c.Configuration.Roles.Source = new(false) },
			"delete PodChaperon of-a-source", "delete Node admiralty-c2",
		},
		"no target": {
			func(c *cluster) { c.Configuration.Roles.Target = new(false) },
			"delete Node admiralty-c2", "delete PodChaperon of-a-source",
		},
		"delegates are left": {
			func(c *cluster) { c.Pods = Leave }, "delete Node admiralty-c2", "delete PodChaperon of-a-source",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newRelease(t)
				test.change(c)
				if err := c.do(t.Context()); err != nil {
					t.Fatal(err)
				}
				if !slices.Contains(c.done, test.want) || slices.Contains(c.done, test.never) {
					t.Errorf("the writes are %q", c.done)
				}
			})
		})
	}
}

// TestWhatIsRefusedIsReported has a step of which no other depends on the failed one done all the same.
func TestWhatIsRefusedIsReported(t *testing.T) {
	const stops, nodes, ended = "scale manager", "delete Node admiralty-c2", "delete PodChaperon of-a-source"
	for refused, never := range map[string]string{
		"get Deployment":                      "delete MutatingWebhookConfiguration pods",
		"delete MutatingWebhookConfiguration": stops,
		"list PodList":                        stops,
		"list NodeList":                       stops,
		"delete Pod":                          stops,
		"scale Deployment":                    nodes,
		"delete Node":                         nodes,
		"list ServiceList":                    "",
		"list ClusterSourceList":              ended,
		"list PodChaperonList":                ended,
		"delete PodChaperon":                  ended,
		"delete Lease":                        "delete Lease leader",
	} {
		t.Run(refused, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newRelease(t)
				c.refused = refused
				if err := c.do(t.Context()); !errors.Is(err, errRefused) {
					t.Errorf("error is %v", err)
				}
				if never == stops {
					never = stops + ` {"spec":{"replicas":0}}`
				}
				if slices.Contains(c.done, never) {
					t.Errorf("the writes are %q", c.done)
				}
				if never == "" && !slices.Contains(c.done, "delete Lease leader") {
					t.Errorf("the other steps are missing: %q", c.done)
				}
			})
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for pods, valid := range map[Pods]bool{End: true, Leave: true, "": false, "stop": false} {
		r, err := newRun(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, Options{Pods: pods})
		if (err == nil) != valid {
			t.Errorf("%q: error is %v", pods, err)
		}
		if valid && r.Notice != notice {
			t.Errorf("sources have %s to notice, want %s", r.Notice, notice)
		}
	}
	r, err := newRun(t.Context(), &rest.Config{}, Options{Pods: End, Notice: time.Second})
	if err != nil || r.Notice != time.Second {
		t.Errorf("the time to notice is another one: %v, %v", r, err)
	}
	if err := Run(t.Context(), &rest.Config{Host: "::"}, Options{Pods: End}); err == nil {
		t.Error("a login that cannot be read is accepted")
	}
}
