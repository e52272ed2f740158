package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "source-id"
	user     = "scheduler"
)

// The clusters are shared by the tests of this package, which clean up after themselves.
var (
	source, cluster1, cluster2 *env.Cluster
	login                      *rest.Config // the scheduler's
)

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		clusters := env.Start(t, "source", "c1", "c2")
		source, cluster1, cluster2 = clusters[0], clusters[1], clusters[2]
		login = source.User(t, user)
		source.Grant(t, user, "", // as the documentation of the package says
			env.Rule("", []string{"pods"}, "list", "watch"),
			env.Rule("", []string{"pods/binding"}, "create"),
			env.Rule("", []string{"pods/status"}, "patch"),
			env.Rule("", []string{"nodes", "namespaces"}, "list", "watch"),
			env.Rule("events.k8s.io", []string{"events"}, "create", "patch", "update"))
	})
}

// scheduler is the scheduler of one test, with two targets, c1 and c2.
type scheduler struct {
	namespace string
	targets   map[string]*playedTarget
	registry  *engage.Registry
	// stop stops the scheduler and waits until it has stopped.
	stop func()
}

// start starts a scheduler. Both targets schedule every pod, and have the room of one node with the CPUs given.
func start(t *testing.T, timeout time.Duration, cpus map[string]string) *scheduler {
	t.Helper()
	s := &scheduler{namespace: env.Namespace(t, env.Enabled(), source, cluster1, cluster2)}
	s.targets = map[string]*playedTarget{"c1": newTarget("c1", cluster1), "c2": newTarget("c2", cluster2)}
	for name, target := range s.targets {
		createNode(t, target.NodeName, cpus[name])
		summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
		env.Create(t, target.Cluster, summary)
		s.summarize(t, name, cpus[name])
		s.answer(name, running)
	}
	t.Cleanup(func() { s.clean(t) })
	s.run(t, timeout)
	return s
}

// run runs a scheduler, as the leader does. It engages all targets but those that are away.
func (s *scheduler) run(t *testing.T, timeout time.Duration, away ...string) {
	t.Helper()
	s.registry = engage.NewRegistry()
	under, err := scheduling.New(scheduling.Options{
		Config:   login,
		Source:   translate.Source{ClusterID: sourceID},
		Sign:     env.Sign,
		Registry: s.registry,
		Strategy: configv1alpha1.Spread,
		Timeout:  timeout,
		Targets:  source.Client,
	})
	env.Must(t, err)
	stop := env.Run(t, under.Start)
	for name, target := range s.targets {
		if !slices.Contains(away, name) {
			target.engage(t, s.registry)
		}
	}
	s.stop = func() {
		stop()
		for _, target := range s.targets {
			target.Disengage()
		}
	}
}

func (s *scheduler) clean(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	pods := &corev1.PodList{}
	env.Must(t, source.Client.List(ctx, pods))
	for i := range pods.Items {
		env.Must(t, source.Client.Delete(ctx, &pods.Items[i], client.GracePeriodSeconds(0)))
	}
	for _, target := range s.targets {
		env.Must(t, target.Cluster.Client.DeleteAllOf(ctx, &v1alpha1.PodChaperon{}, client.InNamespace(s.namespace)))
	}
}

// createNode creates the virtual node of a target.
func createNode(t *testing.T, name, cpus string) {
	t.Helper()
	node := env.VirtualNode(name)
	node.Labels[corev1.LabelHostname] = name
	env.Create(t, source, node)
	env.ChangeStatus(t, source, node, func(node *corev1.Node) {
		node.Status.Allocatable = room(cpus)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
}

// answer sets the answer of a target from now on. With nil the target does not answer.
func (s *scheduler) answer(name string, answer func(*v1alpha1.PodChaperon)) {
	s.targets[name].answer.Store(&answer)
}

// summarize writes the ClusterSummary of a target with one node.
func (s *scheduler) summarize(t *testing.T, name, cpus string) {
	t.Helper()
	s.summarizeAs(t, name, v1alpha1.NodeClass{
		Nodes: 1, Allocatable: room("100"), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room(cpus)}},
	})
}

// summarizeAs writes the ClusterSummary of a target with nodes of one class.
func (s *scheduler) summarizeAs(t *testing.T, name string, class v1alpha1.NodeClass) {
	t.Helper()
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.ChangeStatus(t, s.targets[name].Cluster, summary, func(summary *v1alpha1.ClusterSummary) {
		summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: class.Nodes, Classes: []v1alpha1.NodeClass{class}}
	})
}

// taint replaces the taints of a target's virtual node.
func (s *scheduler) taint(t *testing.T, name string, keys ...string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.targets[name].NodeName}}
	env.Change(t, source, node, func(node *corev1.Node) {
		node.Spec.Taints = nil
		for _, key := range keys {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
		}
	})
}

// setPolicy changes the policy of a target.
func (s *scheduler) setPolicy(name string, policy *v1alpha1.PlacementPolicy) {
	s.registry.SetPolicy(s.targets[name].Target.Target, policy)
}

func room(cpus string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpus),
		corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourcePods:   resource.MustParse("500"),
	}
}

// pod creates a proxy as admission leaves it.
func (s *scheduler) pod(t *testing.T, name, cpus string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := env.Proxy(s.namespace, name)
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpus)}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests}
	for _, change := range changes {
		change(pod)
	}
	env.Create(t, source, pod)
	return pod
}

// burst creates many proxies.
func (s *scheduler) burst(
	t *testing.T, name string, count int, cpus string, changes ...func(*corev1.Pod),
) []*corev1.Pod {
	t.Helper()
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = s.pod(t, fmt.Sprintf("%s-%d", name, i), cpus, changes...)
	}
	return pods
}

// onNode lets a pod go to one target only.
func onNode(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "admiralty-" + name}
	}
}

// bound waits until pods are bound and returns how many to each target.
func bound(t *testing.T, pods ...*corev1.Pod) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, pod := range pods {
		env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("the pod is not bound: %v", pod.Status.Conditions)
			}
			return nil
		})
		counts[pod.Spec.NodeName[len("admiralty-"):]]++
	}
	return counts
}

// expectBound waits until a pod is bound, and checks to which target.
func expectBound(t *testing.T, pod *corev1.Pod, want string) {
	t.Helper()
	env.ExpectEqual(t, "pods by target", map[string]int{want: 1}, bound(t, pod))
}

// messageOf waits until a pod is reported unschedulable and returns why.
func messageOf(t *testing.T, pod *corev1.Pod) (message string) {
	t.Helper()
	env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				message = c.Message
				return nil
			}
		}
		return errors.New("the pod is not reported unschedulable")
	})
	return message
}

// chaperons returns those of this test in a target.
func (s *scheduler) chaperons(t *testing.T, name string) []v1alpha1.PodChaperon {
	t.Helper()
	list := &v1alpha1.PodChaperonList{}
	env.Must(t, s.targets[name].Cluster.Client.List(t.Context(), list, client.InNamespace(s.namespace)))
	return list.Items
}

// placed waits until a target has as many PodChaperons, and returns the first.
func (s *scheduler) placed(t *testing.T, name string, count int) *v1alpha1.PodChaperon {
	t.Helper()
	var found []v1alpha1.PodChaperon
	env.Eventually(t, func(context.Context) error {
		if found = s.chaperons(t, name); len(found) != count {
			return fmt.Errorf("%s has %d PodChaperons, want %d", name, len(found), count)
		}
		return nil
	})
	if count == 0 {
		return nil
	}
	return &found[0]
}

// anywhere waits until both targets together have as many PodChaperons, and returns them.
func (s *scheduler) anywhere(t *testing.T, count int) (found map[string][]v1alpha1.PodChaperon) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		found = map[string][]v1alpha1.PodChaperon{"c1": s.chaperons(t, "c1"), "c2": s.chaperons(t, "c2")}
		if all := len(found["c1"]) + len(found["c2"]); all != count {
			return fmt.Errorf("there are %d PodChaperons, want %d", all, count)
		}
		return nil
	})
	return found
}

// expectCreated checks how many PodChaperons both targets together were given, those that are gone included.
func (s *scheduler) expectCreated(t *testing.T, want int32) {
	t.Helper()
	got := s.targets["c1"].created.Load() + s.targets["c2"].created.Load()
	env.ExpectEqual(t, "PodChaperons that were created", want, got)
}

// chaperonOf finds the PodChaperon of a pod in a target.
func (s *scheduler) chaperonOf(t *testing.T, name string, pod *corev1.Pod) *v1alpha1.PodChaperon {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(pod.Namespace, translate.DelegateName(pod))}
	return env.Get(t, s.targets[name].Cluster, chaperon)
}
