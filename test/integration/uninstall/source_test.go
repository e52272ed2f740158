package uninstall

import (
	"context"
	"errors"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager/uninstall"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var errNotYet = errors.New("not yet")

func TestASourceEndsItsPodsBeforeItsNodesGo(t *testing.T) {
	r := install(t, 1)
	namespace := env.Namespace(t, nil, cluster)
	up, down := node(t, "admiralty-up", corev1.ConditionTrue), node(t, "admiralty-down", corev1.ConditionFalse)
	running, lost := proxy(t, namespace, "running", up), proxy(t, namespace, "lost", down)
	replaced, bare := proxy(t, namespace, "replaced", nil, controlled), proxy(t, namespace, "bare", nil)
	heartbeat := &coordinationv1.Lease{ObjectMeta: env.Meta(corev1.NamespaceNodeLease, up.Name)}
	leader := &coordinationv1.Lease{ObjectMeta: env.Meta(env.ReleaseNamespace, env.ManagerAccount)}
	env.Ensure(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}})
	env.Create(t, cluster, heartbeat, leader)
	service := rewrittenService(t, namespace)
	webhook := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: env.Release},
	}

	wait := play(t, func(context.Context) bool { // the manager, which ends the delegate
		if env.Get(t, cluster, running).DeletionTimestamp == nil {
			return false
		}
		if env.Exists(t, cluster, webhook) || !env.Exists(t, cluster, up) || r.replicas(t) == 0 {
			t.Error("a proxy is deleted while its replacement would be elected, or after the manager has stopped")
		}
		env.Delete(t, cluster, running, client.GracePeriodSeconds(0))
		return true
	})
	r.uninstall(t)
	wait()

	for _, gone := range []client.Object{running, replaced, up, down, heartbeat, leader, webhook} {
		if env.Exists(t, cluster, gone) {
			t.Errorf("%T %s is still there", gone, gone.GetName())
		}
	}
	if !env.Exists(t, cluster, bare) || bare.DeletionTimestamp != nil {
		t.Error("a pending pod was deleted that nobody replaces")
	}
	if !env.Exists(t, cluster, lost) || r.replicas(t) != 0 {
		t.Error("the manager runs on, or the Job did the garbage collector's work")
	}
	env.Eventually(t, func(ctx context.Context) error { // The webhook blocks no elected pod.
		return cluster.Client.Create(ctx, env.Proxy(env.Namespace(t, env.Enabled(), cluster), "elected"))
	})
	env.Get(t, cluster, service)
	env.ExpectEqual(t, "selector", map[string]string{"app": "web"}, service.Spec.Selector)
	if _, ok := service.Annotations[v1alpha1.AnnotationOriginalSelector]; ok {
		t.Errorf("the Service keeps our annotations: %v", service.Annotations)
	}
}

// rewrittenService creates a Service whose selector selects delegates, as package services writes it.
func rewrittenService(t *testing.T, namespace string) *corev1.Service {
	t.Helper()
	service := &corev1.Service{ObjectMeta: env.Meta(namespace, "web")}
	service.Annotations = map[string]string{"service.cilium.io/global": "true"}
	service.Spec = corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "web"},
	}
	env.Create(t, cluster, service)
	env.Change(t, cluster, service, func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationOriginalSelector] = "app=web"
		s.Annotations[v1alpha1.AnnotationGlobal] = "true"
		s.Spec.Selector = map[string]string{
			v1alpha1.GroupName + "/app": "web", v1alpha1.LabelParentClusterID: "c1",
		}
	})
	return service
}

func TestASourceLeavesItsPods(t *testing.T) {
	r := install(t, 1, "--set", "uninstall.pods=leave")
	r.options.Pods = uninstall.Leave
	namespace := env.Namespace(t, nil, cluster)
	up := node(t, "admiralty-up", corev1.ConditionTrue)
	running, replaced := proxy(t, namespace, "running", up), proxy(t, namespace, "replaced", nil, controlled)
	r.uninstall(t)
	if !env.Exists(t, cluster, running) || running.DeletionTimestamp != nil {
		t.Error("a running pod was deleted")
	}
	if env.Exists(t, cluster, replaced) || env.Exists(t, cluster, up) || r.replicas(t) != 0 {
		t.Error("a pending pod, a virtual node or the manager stayed")
	}
}

func TestNothingHangs(t *testing.T) {
	for name, test := range map[string]struct {
		replicas int32
		timeout  time.Duration
		deleted  bool
	}{
		"a target that never ends a delegate": {1, 30 * time.Second, true},
		"a manager that does not run":         {0, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := install(t, test.replicas)
			r.options.Timeout = test.timeout
			namespace := env.Namespace(t, nil, cluster)
			up := node(t, "admiralty-up", corev1.ConditionTrue)
			running := proxy(t, namespace, "running", up)
			r.uninstall(t)
			if env.Exists(t, cluster, up) || r.replicas(t) != 0 {
				t.Error("the virtual node or the manager stayed")
			}
			if deleted := env.Get(t, cluster, running).DeletionTimestamp != nil; deleted != test.deleted {
				t.Errorf("the proxy is deleted: %t, want %t", deleted, test.deleted)
			}
			r.uninstall(t) // A second time, as after a Job that failed late.
		})
	}
}

func TestUninstallWithoutAManager(t *testing.T) {
	r := install(t, 0)
	env.Delete(t, cluster, r.manager)
	up := node(t, "admiralty-up", corev1.ConditionTrue)
	r.uninstall(t)
	if env.Exists(t, cluster, up) {
		t.Error("the virtual node stayed")
	}
}
