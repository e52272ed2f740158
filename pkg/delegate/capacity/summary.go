package capacity

import (
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Summarize returns the ClusterSummary of a cluster with these nodes and pods, without name and version. It leaves out
// labels whose key=value matches excluded (nil matches none). It lists delegates in the order in which they were
// scheduled.
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

// summary returns the current ClusterSummary, without name and version. The caller may change it.
func (a *account) summary() *v1alpha1.ClusterSummary {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.totals.labels == nil {
		a.totals.labels, a.totals.features = commonLabels(a.shapes), commonFeatures(a.shapes)
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
			Nodes: a.totals.nodes, DeclaredFeatures: slices.Clone(a.totals.features),
			DeviceResources: a.devices.resources(),
			Requested:       a.resources.list(a.totals.requested), Sources: a.sources(),
		},
	}
	summary.Labels = maps.Clone(a.totals.labels)
	a.partition.describe(&summary.Status, a.resources)
	return summary
}

// sources returns for each source the requests on the schedulable nodes, and the latest delegates on any node: of
// maxSources sources at most. The caller holds the lock.
func (a *account) sources() []v1alpha1.SourceUsage {
	var sources []v1alpha1.SourceUsage
	ids := slices.AppendSeq(slices.Collect(maps.Keys(a.delegates)), maps.Keys(a.totals.bySource))
	slices.Sort(ids)
	for _, id := range a.delegates.most(slices.Compact(ids)) {
		sources = append(sources, v1alpha1.SourceUsage{
			ClusterID: id,
			Requested: a.resources.list(a.totals.bySource[id]),
			Latest:    a.delegates.latest(id, a.pods),
		})
	}
	return sources
}

// describe writes the computed classes into the status.
func (p *partition) describe(status *v1alpha1.ClusterSummaryStatus, resources *resourceNames) {
	status.CommonLabels, status.OmittedLabels = maps.Clone(p.common), slices.Clone(p.omitted)
	for _, c := range p.classes {
		nodeClass := v1alpha1.NodeClass{
			Labels: c.labels, Taints: c.taints,
			Nodes:       int32(c.nodes), //nolint:gosec // fits
			Allocatable: resources.list(c.amount.allocatable), Empty: c.amount.empty, Free: c.amount.listed,
		}
		status.Classes = append(status.Classes, *nodeClass.DeepCopy())
	}
}
