package capacity

import (
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Summarize is the ClusterSummary, but for its name and version, of a cluster with these nodes and pods that keeps labels whose key=value matches
// excluded to itself (nil: none). Its delegates are listed in the order in which they were scheduled.
func Summarize(nodes []*corev1.Node, pods []*corev1.Pod, excluded *regexp.Regexp) *v1alpha1.ClusterSummary {
	a := newAccount(excluded)
	for _, node := range nodes {
		a.setNode(node)
	}
	for _, pod := range pods {
		a.setPod(pod)
	}
	a.orderDelegates()
	return a.summary()
}

// summary is the ClusterSummary of now, but for its name and version. It is the caller's.
func (a *account) summary() *v1alpha1.ClusterSummary {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.totals.labels == nil {
		a.totals.labels = commonLabels(a.shapes)
	}
	if a.moved {
		before := a.partition
		a.partition, a.moved = classify(a.shapes), false
		a.partition.inherit(before)
	}
	a.partition.compute(a.resources)
	summary := &v1alpha1.ClusterSummary{
		Capacity:    a.resources.list(a.totals.capacity),
		Allocatable: a.resources.list(a.totals.allocatable),
		Status: v1alpha1.ClusterSummaryStatus{
			Nodes: a.totals.nodes, Requested: a.resources.list(a.totals.requested), Sources: a.sources(),
		},
	}
	summary.Labels = maps.Clone(a.totals.labels)
	a.partition.tell(&summary.Status, a.resources)
	return summary
}

// sources must be called under the lock. It is what is requested on the schedulable nodes, by source, and the latest delegates on any node.
func (a *account) sources() []v1alpha1.SourceUsage {
	var sources []v1alpha1.SourceUsage
	ids := slices.AppendSeq(slices.Collect(maps.Keys(a.delegates)), maps.Keys(a.totals.bySource))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		sources = append(sources, v1alpha1.SourceUsage{
			ClusterID: id, Requested: a.resources.list(a.totals.bySource[id]), Latest: a.delegates.latest(id, a.pods),
		})
	}
	return sources
}

// tell tells the classes, once they are computed.
func (p *partition) tell(status *v1alpha1.ClusterSummaryStatus, resources *resourceNames) {
	status.CommonLabels, status.OmittedLabels = maps.Clone(p.common), slices.Clone(p.omitted)
	for _, c := range p.classes {
		told := v1alpha1.NodeClass{
			Labels: c.labels, Taints: c.taints, Nodes: int32(c.nodes), Allocatable: resources.list(c.amount.allocatable), Free: c.amount.told, //nolint:gosec // fits
		}
		status.Classes = append(status.Classes, *told.DeepCopy())
	}
}
