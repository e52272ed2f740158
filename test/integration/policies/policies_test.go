package policies

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/policies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The tests share a source with one manager, and a target.
var (
	source, cluster2 *env.Cluster
	cache            client.Reader // the manager's
	follower         *follow.Follower
	registry         *engage.Registry
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "c2")
	source, cluster2 = clusters[0], clusters[1]
	registry = engage.NewRegistry()
	env.RunManager(t, source.Config, func(mgr ctrl.Manager) error {
		cache = mgr.GetClient()
		var err error
		follower, err = follow.New(follow.Options{
			Manager:  mgr,
			Source:   translate.Source{ClusterID: "source-id"},
			Appeared: func(string, needs.Ref) {},
			Registry: registry,
			Clock:    clock.RealClock{},
		})
		if err != nil {
			return err
		}
		return follower.Register(t.Context())
	})
}

// engaged engages the target c2 of a new namespace until the test ends.
func engaged(t *testing.T) *env.Target {
	t.Helper()
	namespace := env.Namespace(t, env.Enabled(), source, cluster2)
	c2 := env.NewTarget(cluster2, types.NamespacedName{Namespace: namespace, Name: "c2"})
	c2.Cached = true
	c2.Engage(t, registry)
	return c2
}

// createPolicy creates a NetworkPolicy that selects the pods of an app.
func createPolicy(t *testing.T, namespace, app string, changes ...func(*networkingv1.NetworkPolicy)) client.Object {
	t.Helper()
	policy := &networkingv1.NetworkPolicy{ObjectMeta: env.Meta(namespace, app)}
	policy.Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	for _, change := range changes {
		change(policy)
	}
	env.Create(t, source, policy)
	return policy
}

// createProxy creates a proxy of an app, and waits until the manager knows it.
func createProxy(t *testing.T, namespace, app string) {
	t.Helper()
	pod := env.Proxy(namespace, app+"-0", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": app} })
	env.Create(t, source, pod)
	env.Eventually(t, func(ctx context.Context) error {
		return cache.Get(ctx, client.ObjectKeyFromObject(pod), &corev1.Pod{})
	})
}

// expectNoEvents checks that there are no events about a policy.
func expectNoEvents(t *testing.T, policy client.Object) {
	t.Helper()
	if events := env.Events(t, source, policy); len(events) > 0 {
		t.Errorf("events about the policy %s: %v", policy.GetName(), events)
	}
}

func TestAPolicyThatSelectsAPodOnItsWayToATargetHasAnEvent(t *testing.T) {
	c2 := engaged(t)
	other := createPolicy(t, c2.Key.Namespace, "db")
	policy := createPolicy(t, c2.Key.Namespace, "web")
	// The pod does not exist in the source, so only its way to the target shows it.
	pod := env.Proxy(c2.Key.Namespace, "web-0", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "web"} })
	env.Eventually(t, func(ctx context.Context) error {
		if err := follower.Ensure(ctx, pod, c2.Target); err != nil {
			return err
		}
		if len(env.Events(t, source, policy)) == 0 {
			return errors.New("the policy has no event yet")
		}
		return nil
	})
	env.WaitForEvent(t, source, policy, policies.ReasonNotFollowed, "such as web-0: it is not copied")
	expectNoEvents(t, other)
}

// One worker looks at one policy after the other. So when a later policy has its event, the earlier ones were looked
// at.
func TestAPolicyThatIsNewAndSelectsProxiesHasAnEvent(t *testing.T) {
	namespace := engaged(t).Key.Namespace
	createProxy(t, namespace, "web")
	createProxy(t, namespace, "own")
	quiet := []client.Object{
		createPolicy(t, namespace, "db"),
		createPolicy(t, namespace, "own", func(policy *networkingv1.NetworkPolicy) {
			policy.Annotations = map[string]string{v1alpha1.AnnotationUseExisting: ""}
		}),
	}
	policy := createPolicy(t, namespace, "web")
	env.WaitForEvent(t, source, policy, policies.ReasonNotFollowed, "such as web-0: it is not copied")
	for _, other := range quiet {
		expectNoEvents(t, other)
	}
}
