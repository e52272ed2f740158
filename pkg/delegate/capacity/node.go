package capacity

import (
	"cmp"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// nodeAccount is the entry of one node. It exists before and after the node while pods name the node.
type nodeAccount struct {
	node *corev1.Node // nil if there is no such node
	// real means that the node exists and is not virtual; schedulable, that it is also Ready and not cordoned.
	real, schedulable bool
	labels            map[string]string // without the excluded ones
	features          []string
	shape             *shape // nil unless the node is real
	capacity          amounts
	allocatable       amounts
	tied              amounts // the requests of pods that belong to the node
	usage
}

func (n *nodeAccount) set(node *corev1.Node, resources *resourceNames, excluded *regexp.Regexp) {
	if n.node == nil || !maps.Equal(n.node.Labels, node.Labels) {
		n.labels = publicLabels(node.Labels, excluded)
	}
	n.node, n.features = node, node.Status.DeclaredFeatures
	n.real = !isVirtual(node)
	n.schedulable = n.real && !node.Spec.Unschedulable && nodeReady(node)
	n.capacity, n.allocatable = resources.amounts(node.Status.Capacity), resources.amounts(node.Status.Allocatable)
}

func isVirtual(node *corev1.Node) bool {
	return node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue
}

func (n *nodeAccount) unset() {
	n.node, n.real, n.schedulable, n.labels, n.features = nil, false, false, nil, nil
}

// markChanged makes the next summary compute the node's class again.
func (n *nodeAccount) markChanged() {
	if n.shape != nil {
		n.shape.changed = true
	}
}

// free writes the free amounts of the node in the order of places. They are never negative.
func (n *nodeAccount) free(into []int64, places []int) {
	for i, place := range places {
		into[i] = max(0, n.allocatable.at(place)-n.requested.at(place))
	}
}

// empty writes the amounts of the node that are free but for the pods that belong to it.
func (n *nodeAccount) empty(into []int64, places []int) {
	for i, place := range places {
		into[i] = max(0, n.allocatable.at(place)-n.tied.at(place))
	}
}

func nodeReady(node *corev1.Node) bool {
	_, c := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// publicLabels returns the labels whose key=value does not match excluded.
func publicLabels(labels map[string]string, excluded *regexp.Regexp) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(key, value string) bool {
		return excluded != nil && excluded.MatchString(key+"="+value)
	})
	return kept
}

// taints returns the taints that repel pods from the node. A cordoned node has the taint of the cordon, even if the
// node's controller has not added it yet.
func taints(node *corev1.Node) []corev1.Taint {
	var kept []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule {
			kept = append(kept, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	if node.Spec.Unschedulable {
		cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
		kept = append(slices.DeleteFunc(kept, func(t corev1.Taint) bool { return t.MatchTaint(&cordon) }), cordon)
	}
	slices.SortFunc(kept, func(a, b corev1.Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Effect, b.Effect), cmp.Compare(a.Value, b.Value))
	})
	return kept
}
