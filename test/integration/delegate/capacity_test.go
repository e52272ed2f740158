package delegate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestTheClusterSummaryFollowsNodesAndPods is the only test with nodes, because all tests share the ClusterSummary.
// Pods on nodes that do not exist do not count.
func TestTheClusterSummaryFollowsNodesAndPods(t *testing.T) {
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	await := func(what string, want v1alpha1.ClusterSummaryStatus, allocatable corev1.ResourceList) {
		t.Helper()
		env.WaitFor(t, target, summary, func(got *v1alpha1.ClusterSummary) error {
			want.ClusterID, want.KubernetesVersion = "target", got.Status.KubernetesVersion
			same := equality.Semantic.DeepEqual
			if want.KubernetesVersion != "" && same(want, got.Status) && same(allocatable, got.Allocatable) {
				return nil
			}
			diff := cmp.Diff(want, got.Status)
			return fmt.Errorf("%s: allocatable %v, status (-want +got):\n%s", what, got.Allocatable, diff)
		})
	}
	await("an empty cluster", v1alpha1.ClusterSummaryStatus{}, nil)

	labels := func(name string) map[string]string {
		return map[string]string{"zone": "z", corev1.LabelHostname: name, "example.org/secret": name}
	}
	newNode(t, "big", "4", "8Gi", labels("big"))
	small := newNode(t, "small", "2", "4Gi", labels("small"))
	newNode(t, "virtual", "64", "64Gi", map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue})
	bigFree := v1alpha1.FreeNodes{Nodes: 1, Resources: resources("4", "8Gi", "110")}
	smallFree := v1alpha1.FreeNodes{Nodes: 1, Resources: resources("2", "4Gi", "110")}
	both := v1alpha1.ClusterSummaryStatus{
		Nodes: 2, CommonLabels: map[string]string{"zone": "z"}, OmittedLabels: []string{corev1.LabelHostname},
		Classes: []v1alpha1.NodeClass{
			{Nodes: 2, Allocatable: bigFree.Resources, Free: []v1alpha1.FreeNodes{bigFree, smallFree}},
		},
	}
	await("two nodes", both, resources("6", "12Gi", "220"))
	if diff := cmp.Diff(map[string]string{"zone": "z"}, summary.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	c := create(t, newNamespace(t, nil), func(c *v1alpha1.PodChaperon) {
		c.Spec.Containers[0].Resources.Requests = resources("1500m", "1Gi", "")
	})
	pod := waitForDelegate(t, c)
	env.Bind(t, target, pod, "big")
	used := resources("1500m", "1Gi", "1")
	one := *both.DeepCopy()
	one.Requested = used
	one.Sources = []v1alpha1.SourceUsage{
		{ClusterID: "source", Requested: used, Latest: []string{pod.Labels[v1alpha1.LabelParentUID]}},
	}
	one.Classes[0].Free[0].Resources = resources("2500m", "7Gi", "109")
	await("a delegate", one, resources("6", "12Gi", "220"))

	env.Delete(t, target, pod, client.GracePeriodSeconds(0))
	await("no delegate", both, resources("6", "12Gi", "220"))

	daemon := &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, "daemon"), Spec: env.PodSpec()}
	daemon.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)},
	}
	daemon.Spec.NodeName, daemon.Spec.Containers[0].Resources.Requests = "big", resources("1500m", "1Gi", "")
	env.Create(t, target, daemon)
	belongs := *both.DeepCopy()
	belongs.Requested = used
	belongs.Classes[0].Free[0].Resources = resources("2500m", "7Gi", "109")
	belongs.Classes[0].Empty = []corev1.ResourceList{resources("2500m", "7Gi", "109"), smallFree.Resources}
	await("a pod of a DaemonSet", belongs, resources("6", "12Gi", "220"))
	env.Delete(t, target, daemon, client.GracePeriodSeconds(0))
	await("no pod of a DaemonSet", both, resources("6", "12Gi", "220"))

	env.Change(t, target, small, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	alone := *both.DeepCopy()
	alone.Nodes = 1
	alone.Classes = []v1alpha1.NodeClass{
		{Nodes: 1, Allocatable: bigFree.Resources, Free: []v1alpha1.FreeNodes{bigFree}},
		{
			Nodes: 1, Allocatable: smallFree.Resources, Free: []v1alpha1.FreeNodes{smallFree},
			Taints: []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	await("a cordoned node", alone, resources("4", "8Gi", "110"))

	env.Delete(t, target, summary)
	env.WaitGone(t, target, summary)
	await("a deleted summary", alone, resources("4", "8Gi", "110"))
	if data, err := json.Marshal(summary); err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the summary names an excluded label (error %v): %s", err, data)
	}
}

func newNode(t *testing.T, name, cpu, memory string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	env.Create(t, target, node)
	env.ChangeStatus(t, target, node, func(node *corev1.Node) {
		node.Status.Capacity, node.Status.Allocatable = resources(cpu, memory, "110"), resources(cpu, memory, "110")
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	// An API server taints new nodes until a controller finds them ready.
	env.Change(t, target, node, func(node *corev1.Node) { node.Spec.Taints = nil })
	return node
}

// resources returns the amounts that are not empty.
func resources(cpu, memory, pods string) corev1.ResourceList {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
	if pods != "" {
		list[corev1.ResourcePods] = resource.MustParse(pods)
	}
	return list
}
