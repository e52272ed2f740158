package capacity

import (
	"maps"
	"slices"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// summary is the ClusterSummary of now, but for its version.
func (a *account) summary() *v1alpha1.ClusterSummary {
	a.mu.Lock()
	defer a.mu.Unlock()
	var (
		capacity, allocatable, requested, largestFree = amounts{}, amounts{}, amounts{}, amounts{}

		bySource = map[string]amounts{}
		labels   map[string]string
		nodes    int32
	)
	for _, entry := range a.nodes {
		if !entry.visible() {
			continue
		}
		nodes++
		labels = commonLabels(labels, entry.node.Labels)
		capacity.add(entry.capacity, 1)
		allocatable.add(entry.allocatable, 1)
		requested.add(entry.requested, 1)
		for source, amount := range entry.bySource {
			if bySource[source] == nil {
				bySource[source] = amounts{}
			}
			bySource[source].add(amount, 1)
		}
		entry.raiseFree(largestFree)
	}
	summary := &v1alpha1.ClusterSummary{Capacity: capacity.list(), Allocatable: allocatable.list()}
	summary.Labels = labels
	summary.Status = v1alpha1.ClusterSummaryStatus{
		Nodes: nodes, Requested: requested.list(), Sources: usages(bySource), LargestFree: largestFree.list(),
	}
	return summary
}

// raiseFree makes largest at least what is free on the node: not below zero, even if it has shrunk under its pods.
func (n *nodeAccount) raiseFree(largest amounts) {
	for name, amount := range n.allocatable {
		largest[name] = max(largest[name], amount-n.requested[name])
	}
}

// commonLabels removes from common, which starts as nil, what the labels have otherwise.
func commonLabels(common, labels map[string]string) map[string]string {
	if common == nil {
		common = make(map[string]string, len(labels))
		maps.Copy(common, labels)
		return common
	}
	maps.DeleteFunc(common, func(key, value string) bool {
		other, ok := labels[key]
		return !ok || other != value
	})
	return common
}

func usages(bySource map[string]amounts) []v1alpha1.SourceUsage {
	var all []v1alpha1.SourceUsage
	for _, id := range slices.Sorted(maps.Keys(bySource)) {
		all = append(all, v1alpha1.SourceUsage{ClusterID: id, Requested: bySource[id].list()})
	}
	return all
}
