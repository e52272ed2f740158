package quality

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// exactly returns a summary with a class for each node of a cluster, with all labels of the node. It has no bounds, so
// only the nodes' names are unknown.
func exactly(infos []fwk.NodeInfo) *v1alpha1.ClusterSummary {
	summary := &v1alpha1.ClusterSummary{}
	for _, info := range infos {
		node := info.Node()
		taints := node.Spec.Taints
		if node.Spec.Unschedulable {
			cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
			taints = append(taints[:len(taints):len(taints)], cordoned)
		}
		summary.Status.Classes = append(summary.Status.Classes, v1alpha1.NodeClass{
			Nodes: 1, Labels: node.Labels, Taints: taints, Allocatable: maps.Clone(node.Status.Allocatable),
			Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: free(info)}},
		})
	}
	return summary
}

// free returns the amounts that kube-scheduler counts as free.
func free(info fwk.NodeInfo) corev1.ResourceList {
	has, used := info.GetAllocatable(), info.GetRequested()
	whole := func(amount int64) resource.Quantity { return *resource.NewQuantity(amount, resource.DecimalSI) }
	milli := func(amount int64) resource.Quantity { return *resource.NewMilliQuantity(amount, resource.DecimalSI) }
	list := corev1.ResourceList{
		corev1.ResourcePods:             whole(int64(has.GetAllowedPodNumber() - len(info.GetPods()))),
		corev1.ResourceCPU:              milli(has.GetMilliCPU() - used.GetMilliCPU()),
		corev1.ResourceMemory:           whole(has.GetMemory() - used.GetMemory()),
		corev1.ResourceEphemeralStorage: whole(has.GetEphemeralStorage() - used.GetEphemeralStorage()),
	}
	for name, amount := range has.GetScalarResources() {
		list[name] = whole(amount - used.GetScalarResources()[name])
	}
	return list
}
