package capacity

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// account knows each node and what is requested on it. Its methods say whether they changed anything that a summary shows. It
// keeps the objects that it is given and never changes them. It is safe for concurrent use.
type account struct {
	mu    sync.Mutex // guards nodes and pods
	nodes map[string]*nodeAccount
	pods  map[types.NamespacedName]*corev1.Pod // those that count, as they were counted
}

// nodeAccount outlives its node while pods are there, and may precede it.
type nodeAccount struct {
	node        *corev1.Node // nil if there is no such node
	capacity    amounts
	allocatable amounts
	requested   amounts
	bySource    map[string]amounts
}

func newAccount() *account {
	return &account{nodes: map[string]*nodeAccount{}, pods: map[types.NamespacedName]*corev1.Pod{}}
}

// setPod counts a pod, instead of the one of that name which it counted before.
func (a *account) setPod(pod *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	a.mu.Lock()
	defer a.mu.Unlock()
	before, counted := a.pods[key]
	if !counts(pod) {
		return a.removeCounted(key)
	}
	after := requests(pod)
	if counted && pod.Spec.NodeName == before.Spec.NodeName && source(pod) == source(before) && maps.Equal(after, requests(before)) {
		a.pods[key] = pod // The old one is garbage elsewhere.
		return false
	}
	a.removeCounted(key)
	a.pods[key] = pod
	node := a.nodeAccount(pod.Spec.NodeName)
	node.count(source(pod), after, +1)
	return node.visible()
}

// removePod forgets a pod.
func (a *account) removePod(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.removeCounted(key)
}

// setNode adds or replaces a node.
func (a *account) setNode(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.nodeAccount(node.Name)
	before := *entry
	entry.node, entry.capacity, entry.allocatable = node, amountsOf(node.Status.Capacity), amountsOf(node.Status.Allocatable)
	if !entry.visible() || !before.visible() {
		return entry.visible() != before.visible()
	}
	return !maps.Equal(before.node.Labels, node.Labels) ||
		!maps.Equal(before.capacity, entry.capacity) || !maps.Equal(before.allocatable, entry.allocatable)
}

// removeNode forgets a node, but not the pods there.
func (a *account) removeNode(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry, ok := a.nodes[name]
	if !ok {
		return false
	}
	wasVisible := entry.visible()
	entry.node = nil
	a.dropEmpty(name, entry)
	return wasVisible
}

// removeCounted must be called under the lock.
func (a *account) removeCounted(key types.NamespacedName) bool {
	pod, ok := a.pods[key]
	if !ok {
		return false
	}
	delete(a.pods, key)
	node := a.nodeAccount(pod.Spec.NodeName)
	node.count(source(pod), requests(pod), -1)
	a.dropEmpty(pod.Spec.NodeName, node)
	return node.visible()
}

// nodeAccount must be called under the lock.
func (a *account) nodeAccount(name string) *nodeAccount {
	node, ok := a.nodes[name]
	if !ok {
		node = &nodeAccount{requested: amounts{}, bySource: map[string]amounts{}}
		a.nodes[name] = node
	}
	return node
}

// dropEmpty must be called under the lock.
func (a *account) dropEmpty(name string, node *nodeAccount) {
	if node.node == nil && len(node.requested) == 0 {
		delete(a.nodes, name)
	}
}

func (n *nodeAccount) count(source string, requested amounts, sign int64) {
	n.requested.add(requested, sign)
	if source == "" {
		return
	}
	if n.bySource[source] == nil {
		n.bySource[source] = amounts{}
	}
	n.bySource[source].add(requested, sign)
	if len(n.bySource[source]) == 0 {
		delete(n.bySource, source)
	}
}

// visible says whether the node counts.
func (n *nodeAccount) visible() bool {
	return n.node != nil && schedulable(n.node)
}

// counts says whether the pod takes room on a node.
func counts(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// requests is what kube-scheduler counts for the pod, and the pod itself.
func requests(pod *corev1.Pod) amounts {
	requested := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	requested[corev1.ResourcePods] = 1
	return requested
}

// source is the cluster that the pod is a delegate of, or empty.
func source(pod *corev1.Pod) string {
	return pod.Labels[v1alpha1.LabelParentClusterID]
}

func schedulable(node *corev1.Node) bool {
	if node.Spec.Unschedulable || node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue {
		return false
	}
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
