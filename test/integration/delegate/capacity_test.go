package delegate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

// The summary is the cluster's: no other test here makes nodes, and pods on nodes that are not there do not count.
func TestClusterSummary(t *testing.T) {
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	await := func(what string, want v1alpha1.ClusterSummaryStatus, allocatable corev1.ResourceList) {
		t.Helper()
		apiserver.Eventually(t, func(ctx context.Context) error {
			if err := target.Client.Get(ctx, client.ObjectKeyFromObject(summary), summary); err != nil {
				return err
			}
			want.ClusterID, want.KubernetesVersion = "target", summary.Status.KubernetesVersion
			if want.KubernetesVersion == "" || !equality.Semantic.DeepEqual(want, summary.Status) || !equality.Semantic.DeepEqual(allocatable, summary.Allocatable) {
				return fmt.Errorf("%s: allocatable %v, status (-want +got):\n%s", what, summary.Allocatable, cmp.Diff(want, summary.Status))
			}
			return nil
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
		Classes: []v1alpha1.NodeClass{{Nodes: 2, Allocatable: bigFree.Resources, Free: []v1alpha1.FreeNodes{bigFree, smallFree}}},
	}
	await("two nodes", both, resources("6", "12Gi", "220"))
	if diff := cmp.Diff(map[string]string{"zone": "z"}, summary.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	c := create(t, namespace(t, nil), func(c *v1alpha1.PodChaperon) {
		c.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: quantity("1500m"), corev1.ResourceMemory: quantity("1Gi")}
	})
	pod := eventualDelegate(t, c)
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "big"}}
	must(t, target.Client.SubResource("binding").Create(t.Context(), pod, binding))
	used := resources("1500m", "1Gi", "1")
	one := *both.DeepCopy()
	one.Requested = used
	one.Sources = []v1alpha1.SourceUsage{{ClusterID: "source", Requested: used, Latest: []string{pod.Labels[v1alpha1.LabelParentUID]}}}
	one.Classes[0].Free[0].Resources = resources("2500m", "7Gi", "109")
	await("a delegate", one, resources("6", "12Gi", "220"))

	must(t, target.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	await("no delegate", both, resources("6", "12Gi", "220"))

	before := small.DeepCopy()
	small.Spec.Unschedulable = true
	must(t, target.Client.Patch(t.Context(), small, client.MergeFrom(before)))
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

	old := summary.UID
	must(t, target.Client.Delete(t.Context(), summary))
	apiserver.Eventually(t, func(ctx context.Context) error {
		if err := target.Client.Get(ctx, client.ObjectKeyFromObject(summary), summary); err != nil {
			return err
		}
		if summary.UID == old {
			return fmt.Errorf("the ClusterSummary is the old one")
		}
		return nil
	})
	await("a deleted summary", alone, resources("4", "8Gi", "110"))
	if data, err := json.Marshal(summary); err != nil || strings.Contains(string(data), "secret") {
		t.Errorf("the summary tells an excluded label (error %v): %s", err, data)
	}
}

func newNode(t *testing.T, name, cpu, memory string, labels map[string]string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	must(t, target.Client.Create(t.Context(), node))
	t.Cleanup(func() { must(t, target.Client.Delete(context.WithoutCancel(t.Context()), node)) })
	before := node.DeepCopy()
	node.Status.Capacity, node.Status.Allocatable = resources(cpu, memory, "110"), resources(cpu, memory, "110")
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	must(t, target.Client.Status().Patch(t.Context(), node, client.MergeFrom(before)))
	// An API server taints new nodes until a controller finds them ready.
	before = node.DeepCopy()
	node.Spec.Taints = nil
	must(t, target.Client.Patch(t.Context(), node, client.MergeFrom(before)))
	return node
}

func resources(cpu, memory, pods string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: quantity(cpu), corev1.ResourceMemory: quantity(memory), corev1.ResourcePods: quantity(pods)}
}
