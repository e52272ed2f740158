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

// totals are sums over the schedulable nodes, and their common labels: what only changes when nodes do.
type totals struct {
	nodes                 int32
	labels                map[string]string
	capacity, allocatable amounts
}

// summary is the ClusterSummary of now, but for its name and version. It is the caller's.
func (a *account) summary() *v1alpha1.ClusterSummary {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.totals == nil {
		a.totals = a.sumTotals()
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
		Status:      v1alpha1.ClusterSummaryStatus{Nodes: a.totals.nodes},
	}
	summary.Labels = maps.Clone(a.totals.labels)
	a.tellUsage(&summary.Status)
	a.partition.tell(&summary.Status, a.resources)
	return summary
}

// sumTotals must be called under the lock.
func (a *account) sumTotals() *totals {
	t := &totals{}
	for _, n := range a.nodes {
		if !n.schedulable {
			continue
		}
		t.nodes++
		t.labels = commonLabels(t.labels, n.labels)
		t.capacity.addAll(n.capacity, 1)
		t.allocatable.addAll(n.allocatable, 1)
	}
	return t
}

// tellUsage must be called under the lock. It tells what is requested on the schedulable nodes, and for whom.
func (a *account) tellUsage(status *v1alpha1.ClusterSummaryStatus) {
	var requested, largestFree amounts
	bySource := make(map[string]amounts, len(a.delegates))
	for id := range a.delegates {
		bySource[id] = nil
	}
	for _, n := range a.nodes {
		if !n.schedulable {
			continue
		}
		requested.addAll(n.requested, 1)
		for id, amount := range n.bySource {
			sum := bySource[id]
			sum.addAll(amount, 1)
			bySource[id] = sum
		}
		largestFree.grow(len(n.allocatable))
		for place, amount := range n.allocatable {
			largestFree[place] = max(largestFree[place], amount-n.requested.at(place))
		}
	}
	status.Requested, status.LargestFree = a.resources.list(requested), a.resources.list(largestFree)
	for _, id := range slices.Sorted(maps.Keys(bySource)) {
		status.Sources = append(status.Sources, v1alpha1.SourceUsage{
			ClusterID: id, Requested: a.resources.list(bySource[id]), Latest: a.delegates.latest(id, a.pods),
		})
	}
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
