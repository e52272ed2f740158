package capacity

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// nodeAccount outlives its node while pods are there, and may precede it.
type nodeAccount struct {
	node *corev1.Node // nil if there is no such node
	// real says that the node exists and is not virtual, schedulable that it is moreover Ready and not cordoned.
	real, schedulable bool
	labels            map[string]string // without those that are excluded
	shape             *shape            // nil unless the node is real
	capacity          amounts
	allocatable       amounts
	usage
}

func (n *nodeAccount) set(node *corev1.Node, resources *resourceNames, excluded *regexp.Regexp) {
	if n.node == nil || !maps.Equal(n.node.Labels, node.Labels) {
		n.labels = told(node.Labels, excluded)
	}
	n.node = node
	n.real = node.Labels[v1alpha1.LabelNodeProvider] != v1alpha1.LabelNodeProviderValue
	n.schedulable = n.real && !node.Spec.Unschedulable && ready(node)
	n.capacity, n.allocatable = resources.amounts(node.Status.Capacity), resources.amounts(node.Status.Allocatable)
}

func (n *nodeAccount) unset() {
	n.node, n.real, n.schedulable, n.labels = nil, false, false, nil
}

// change has the node's class computed anew.
func (n *nodeAccount) change() {
	if n.shape != nil {
		n.shape.changed = true
	}
}

// free writes what is free on the node, never less than nothing, in the order of places.
func (n *nodeAccount) free(into []int64, places []int) {
	for i, place := range places {
		into[i] = max(0, n.allocatable.at(place)-n.requested.at(place))
	}
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// told is the labels whose key=value does not match excluded.
func told(labels map[string]string, excluded *regexp.Regexp) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, value string) bool {
		return excluded != nil && excluded.MatchString(key+"="+value)
	})
	return kept
}

// taints are those that keep pods away from the node, with that of a cordoned node even if nobody has put it there yet.
func taints(node *corev1.Node) []corev1.Taint {
	var kept []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			kept = append(kept, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	if cordon := (corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}); node.Spec.Unschedulable {
		kept = append(slices.DeleteFunc(kept, func(t corev1.Taint) bool { return t.MatchTaint(&cordon) }), cordon)
	}
	slices.SortFunc(kept, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
	})
	return kept
}
