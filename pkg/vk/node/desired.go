package node

import (
	"encoding/json"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// annotationApplied is the annotation in which virtual-kubelet's node controller keeps the labels that it applied.
const annotationApplied = "virtual-kubelet.io/last-applied-object-meta"

// annotationAppliedStatus is the annotation in which the node controller keeps the status that it applied.
const annotationAppliedStatus = "virtual-kubelet.io/last-applied-node-status"

// annotationMetricsPath is the annotation by which metrics-server finds the path of a node's metrics.
const annotationMetricsPath = "metrics.k8s.io/resource-metrics-path"

// facts are everything that decides about a virtual node.
type facts struct {
	key      types.NamespacedName
	status   v1alpha1.TargetStatus
	excluded *regexp.Regexp
	// invalid is why excludedLabelsRegexp cannot be used, or nil. API servers check that it is valid, and not how large
	// it is.
	invalid error
	// allowed says which labels of the target's nodes the virtual node may have; nil allows all.
	allowed func(label string) bool
	// summary is nil while the target is not engaged.
	summary *v1alpha1.ClusterSummary
	// spared says that the target is not connected, and that its pods must not be evicted now: see isSpared.
	spared bool
	// notReadySince is since when this process wants the node NotReady, or zero.
	notReadySince time.Time
	// existing is the current virtual node, or nil.
	existing *corev1.Node
	// clusterID is the source's.
	clusterID string
	// address and port lead to our kubelet API.
	address string
	port    int32
	now     metav1.Time
}

// desiredNode returns the desired virtual node. It keeps capacity and labels of the existing one while there is no
// summary.
func desiredNode(f facts) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: translate.VirtualNodeName(f.key),
			// All virtual nodes have the same address.
			Annotations: map[string]string{
				annotationMetricsPath: translate.ResourceMetricsPath(translate.VirtualNodeName(f.key)),
			},
		},
		Spec: corev1.NodeSpec{ProviderID: providerID(f.key), Taints: []corev1.Taint{Taint()}},
		Status: corev1.NodeStatus{
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: f.port}},
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:  f.status.KubernetesVersion,
				OperatingSystem: string(corev1.Linux),
			},
			Conditions: nodeConditions(f),
		},
	}
	if f.address != "" {
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: f.address}}
	}
	var labels map[string]string
	switch {
	case f.summary != nil:
		labels = f.summary.Labels
		node.Status.DeclaredFeatures = f.summary.Status.DeclaredFeatures
		node.Status.Capacity = f.summary.Capacity
		node.Status.Allocatable = allocatable(f.summary, f.clusterID)
		node.Status.NodeInfo.Architecture = labels[corev1.LabelArchStable]
	case f.existing != nil:
		labels = appliedLabels(f.existing)
		node.Status.DeclaredFeatures = f.existing.Status.DeclaredFeatures
		node.Status.Capacity = f.existing.Status.Capacity
		node.Status.Allocatable = f.existing.Status.Allocatable
		node.Status.NodeInfo.Architecture = f.existing.Status.NodeInfo.Architecture
	}
	node.Labels = Labels(f.key, labels, f.excluded, f.allowed)
	return node
}

// allocatable returns the target's allocatable resources less the requests of all pods that are not our delegates.
func allocatable(summary *v1alpha1.ClusterSummary, clusterID string) corev1.ResourceList {
	var ours corev1.ResourceList
	for _, source := range summary.Status.Sources {
		if source.ClusterID == clusterID {
			ours = source.Requested
		}
	}
	result := summary.Allocatable.DeepCopy()
	for name, free := range result {
		free.Sub(summary.Status.Requested[name])
		free.Add(ours[name])
		if free.Sign() < 0 {
			free = *resource.NewQuantity(0, free.Format)
		}
		result[name] = free
	}
	return result
}

// nodeConditions returns the conditions of the desired node, with the times of their last transitions.
func nodeConditions(f facts) []corev1.NodeCondition {
	list := []corev1.NodeCondition{
		readyCondition(f),
		noPressure(corev1.NodeMemoryPressure),
		noPressure(corev1.NodeDiskPressure),
		noPressure(corev1.NodePIDPressure),
		noPressure(corev1.NodeNetworkUnavailable),
	}
	for i := range list {
		list[i].LastTransitionTime = f.now
		if was := nodeCondition(f.existing, list[i].Type); was != nil && was.Status == list[i].Status {
			list[i].LastTransitionTime = was.LastTransitionTime
		}
	}
	return list
}

// readyCondition returns the condition Ready.
func readyCondition(f facts) corev1.NodeCondition {
	connected := meta.FindStatusCondition(f.status.Conditions, v1alpha1.ConditionConnected)
	if connected == nil {
		return corev1.NodeCondition{
			Type:    corev1.NodeReady,
			Status:  corev1.ConditionFalse,
			Reason:  v1alpha1.ReasonConnecting,
			Message: "the target is not connected yet",
		}
	}
	is := corev1.NodeCondition{
		Type:    corev1.NodeReady,
		Status:  corev1.ConditionFalse,
		Reason:  connected.Reason,
		Message: connected.Message,
	}
	switch {
	case connected.Status == metav1.ConditionTrue:
		is.Status = corev1.ConditionTrue
	case v1alpha1.LeavesNodeUnknown(connected.Reason), f.spared: // Proxies tolerate this.
		is.Status = corev1.ConditionUnknown
	}
	return is
}

func noPressure(conditionType corev1.NodeConditionType) corev1.NodeCondition {
	return corev1.NodeCondition{
		Type:    conditionType,
		Status:  corev1.ConditionFalse,
		Reason:  "VirtualNode",
		Message: "the nodes of the target cluster see to it",
	}
}

// nodeCondition returns the node's condition of a type, or nil. The node may be nil.
func nodeCondition(node *corev1.Node, conditionType corev1.NodeConditionType) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	_, found := nodeutil.GetNodeCondition(&node.Status, conditionType)
	return found
}

// appliedLabels returns the labels that the node controller put on a node, without the labels of others.
func appliedLabels(node *corev1.Node) map[string]string {
	last := &metav1.ObjectMeta{}
	if err := json.Unmarshal([]byte(node.Annotations[annotationApplied]), last); err != nil {
		return nil // The node controller has only created the node. Its labels come with the summary.
	}
	return last.Labels
}

// appliedFeatures returns the declared features that the node controller applied. API servers before Kubernetes 1.36
// drop them, and keep the annotation. So nobody applies the same features again and again.
func appliedFeatures(node *corev1.Node) []string {
	last := &corev1.NodeStatus{}
	if err := json.Unmarshal([]byte(node.Annotations[annotationAppliedStatus]), last); err != nil {
		return nil
	}
	return last.DeclaredFeatures
}

// conforms says whether the node has everything that want has, and the node controller has patched it. Before its first
// patch, the node controller does not know which labels to remove. Features need only have been applied.
func conforms(node, want *corev1.Node) bool {
	if node == nil || node.Annotations[annotationApplied] == "" {
		return false
	}
	for k, v := range want.Labels {
		if is, ok := node.Labels[k]; !ok || is != v {
			return false
		}
	}
	return node.Annotations[annotationMetricsPath] == want.Annotations[annotationMetricsPath] &&
		hasConditions(node, want.Status.Conditions) &&
		includes(node.Status.Capacity, want.Status.Capacity) &&
		includes(node.Status.Allocatable, want.Status.Allocatable) &&
		equality.Semantic.DeepEqual(node.Status.Addresses, want.Status.Addresses) &&
		node.Status.DaemonEndpoints == want.Status.DaemonEndpoints &&
		node.Status.NodeInfo.KubeletVersion == want.Status.NodeInfo.KubeletVersion &&
		slices.Equal(appliedFeatures(node), want.Status.DeclaredFeatures)
}

// hasConditions says whether the node has all conditions of want, whatever their times are.
func hasConditions(node *corev1.Node, want []corev1.NodeCondition) bool {
	for i := range want {
		want := &want[i]
		is := nodeCondition(node, want.Type)
		if is == nil || is.Status != want.Status || is.Reason != want.Reason || is.Message != want.Message {
			return false
		}
	}
	return true
}

// includes says whether the list includes all resources of want. Others may add resources to a node.
func includes(list, want corev1.ResourceList) bool {
	for name, quantity := range want {
		if is, ok := list[name]; !ok || is.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

// equalExceptTimes says whether two desired nodes are equal except for the times of their conditions.
func equalExceptTimes(a, b *corev1.Node) bool {
	return a != nil && b != nil && equality.Semantic.DeepEqual(withoutTimes(a), withoutTimes(b))
}

func withoutTimes(node *corev1.Node) *corev1.Node {
	node = node.DeepCopy()
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].LastTransitionTime = metav1.Time{}
		node.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
	return node
}

// targetCondition returns the target's condition Ready, which follows the virtual node's.
func targetCondition(f facts) metav1.Condition {
	connected := meta.FindStatusCondition(f.status.Conditions, v1alpha1.ConditionConnected)
	name := translate.VirtualNodeName(f.key)
	is := nodeCondition(f.existing, corev1.NodeReady)
	switch {
	case connected == nil || connected.Status != metav1.ConditionTrue:
		return newTargetCondition(
			metav1.ConditionFalse,
			v1alpha1.ReasonNotConnected,
			"the target is not connected: see the condition Connected",
		)
	case is == nil || is.Status != corev1.ConditionTrue:
		return newTargetCondition(
			metav1.ConditionFalse,
			v1alpha1.ReasonNodeNotReady,
			"the virtual node "+name+" is not Ready yet",
		)
	case f.invalid != nil:
		return newTargetCondition(
			metav1.ConditionFalse,
			v1alpha1.ReasonInvalidExpression,
			"the virtual node "+name+" has none of the target's labels, because of spec.excludedLabelsRegexp: "+
				f.invalid.Error(),
		)
	}
	return newTargetCondition(metav1.ConditionTrue, v1alpha1.ReasonNodeReady, "the virtual node "+name+" is Ready")
}

func conflictCondition(node string) metav1.Condition {
	return newTargetCondition(
		metav1.ConditionFalse,
		v1alpha1.ReasonNodeConflict,
		"a node "+node+" exists that does not have the label "+
			v1alpha1.LabelNodeProvider+"="+v1alpha1.LabelNodeProviderValue+": delete it, or give the target "+
			"another name",
	)
}

func newTargetCondition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}
}

func isVirtual(node *corev1.Node) bool {
	return node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue
}
