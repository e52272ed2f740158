package capacity

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// usage is the sum of the requests of pods, in total and by source.
type usage struct {
	requested amounts
	bySource  map[string]amounts
}

// count adds the requests of a pod (sign 1) or removes them (sign -1). The source is empty for pods that are no
// delegates.
func (u *usage) count(source string, requested amounts, sign int64) {
	u.requested.addAll(requested, sign)
	if source != "" {
		u.countSource(source, requested, sign)
	}
}

func (u *usage) countSource(source string, requested amounts, sign int64) {
	sum := u.bySource[source]
	sum.addAll(requested, sign)
	if sum.at(pods) == 0 {
		delete(u.bySource, source)
		return
	}
	if u.bySource == nil {
		u.bySource = map[string]amounts{}
	}
	u.bySource[source] = sum
}

// totals are sums over the schedulable nodes. A node is removed before it changes, and added again.
type totals struct {
	nodes                 int32
	capacity, allocatable amounts
	usage
	labels   map[string]string // the labels that all nodes have; nil if they have to be computed
	features []string          // those that all nodes declare, computed with the labels
}

// add adds the node (sign 1) or removes it (sign -1), if it is schedulable.
func (t *totals) add(n *nodeAccount, sign int64) {
	if !n.schedulable {
		return
	}
	t.nodes += int32(sign) //nolint:gosec // 1 or -1
	t.capacity.addAll(n.capacity, sign)
	t.allocatable.addAll(n.allocatable, sign)
	t.requested.addAll(n.requested, sign)
	for source, requested := range n.bySource {
		t.countSource(source, requested, sign)
	}
}

// commonLabels returns the labels that all schedulable nodes of the shapes have.
func commonLabels(shapes map[string]*shape) map[string]string {
	var common map[string]string
	for _, s := range shapes {
		compared := false
		for n := range s.nodes {
			switch {
			case !n.schedulable:
				continue
			case common == nil:
				common = make(map[string]string, len(n.labels))
				maps.Copy(common, n.labels)
			case !compared:
				keepEqual(common, n.labels)
			case common[corev1.LabelHostname] != n.labels[corev1.LabelHostname]:
				delete(common, corev1.LabelHostname)
			}
			compared = true
		}
	}
	return common
}

// maxFeatures is more than any Kubernetes declares.
const maxFeatures = 512

// commonFeatures returns the features that all nodes of the shapes declare, in order.
func commonFeatures(shapes map[string]*shape) []string {
	var common []string
	first := true
	for _, s := range shapes {
		for n := range s.nodes {
			if first {
				common, first = slices.Clone(n.features), false
				continue
			}
			common = slices.DeleteFunc(common, func(f string) bool { return !slices.Contains(n.features, f) })
		}
	}
	slices.Sort(common)
	common = slices.Compact(common)
	return common[:min(len(common), maxFeatures)]
}

// keepEqual removes from common all that the labels do not have.
func keepEqual(common, labels map[string]string) {
	maps.DeleteFunc(common, func(key, value string) bool {
		other, ok := labels[key]
		return !ok || other != value
	})
}
