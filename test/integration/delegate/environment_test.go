package delegate

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var (
	// target is a target cluster with a running manager. The tests share it.
	target *env.Cluster
	// managerCache is the cache of this manager.
	managerCache cache.Cache
)

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		target = env.Start(t, "target")[0]
		env.RunManager(t, target.Config, register)
	})
}

func register(mgr ctrl.Manager) error {
	managerCache = mgr.GetCache()
	recorder := mgr.GetEventRecorder("chaperon")
	chaperons := chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, recorder, "")
	if err := chaperons.Register(mgr); err != nil {
		return err
	}
	version, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return err
	}
	return capacity.New(capacity.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Version: version, Clock: clock.RealClock{}, ClusterID: "target",
		ExcludedLabels: regexp.MustCompile("^example.org/secret="),
	}).Register(mgr)
}

// reconcileLater reconciles a PodChaperon once, with a clock that is ahead.
func reconcileLater(t *testing.T, c *v1alpha1.PodChaperon, ahead time.Duration) ctrl.Result {
	t.Helper()
	later := clocktesting.NewFakePassiveClock(time.Now().Add(ahead))
	reconciler := chaperon.New(target.Client, target.Client, later, events.NewFakeRecorder(10), "")
	result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(c)})
	env.Must(t, err)
	return result
}

// newNamespace creates a namespace with the service account that a controller would create.
func newNamespace(t *testing.T, labels map[string]string) string {
	t.Helper()
	namespace := env.Namespace(t, labels, target)
	env.Create(t, target, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "default")})
	return namespace
}

// create creates a PodChaperon.
func create(t *testing.T, namespace string, changes ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	t.Helper()
	c := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(namespace, "web-abcde"), Spec: env.PodSpec()}
	c.Labels = map[string]string{v1alpha1.LabelParentUID: "uid", v1alpha1.LabelParentClusterID: "source", "app": "web"}
	c.Annotations = map[string]string{"note": "kept"}
	c.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for _, change := range changes {
		change(c)
	}
	env.Create(t, target, c)
	return c
}

// waitForDelegate waits until the delegate of a PodChaperon exists.
func waitForDelegate(t *testing.T, c *v1alpha1.PodChaperon) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)}
	return env.WaitFor(t, target, pod, func(*corev1.Pod) error { return nil })
}

// runDelegate plays scheduler and kubelet: the delegate runs. It waits until the PodChaperon shows this.
func runDelegate(t *testing.T, c *v1alpha1.PodChaperon, pod *corev1.Pod) {
	t.Helper()
	env.Bind(t, target, pod, "node")
	env.ChangeStatus(t, target, pod, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	env.WaitFor(t, target, c, hasPhase(corev1.PodRunning))
}

// confirmDeletion plays a kubelet whose containers have ended: it confirms the deletion of the delegate.
func confirmDeletion(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	env.Delete(t, target, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	env.WaitGone(t, target, pod)
}

func delegateIs(reason string) func(*v1alpha1.PodChaperon) error {
	return hasCondition(v1alpha1.ConditionDelegate, corev1.ConditionFalse, reason)
}

func hasCondition(
	kind corev1.PodConditionType, status corev1.ConditionStatus, reason string,
) func(*v1alpha1.PodChaperon) error {
	return func(c *v1alpha1.PodChaperon) error {
		for _, condition := range c.Status.Conditions {
			if condition.Type == kind && condition.Status == status && condition.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("conditions %v lack %s=%s/%s", c.Status.Conditions, kind, status, reason)
	}
}

func hasPhase(phase corev1.PodPhase) func(*v1alpha1.PodChaperon) error {
	return func(c *v1alpha1.PodChaperon) error {
		if c.Status.Phase != phase {
			return fmt.Errorf("phase %q, want %q", c.Status.Phase, phase)
		}
		return nil
	}
}
