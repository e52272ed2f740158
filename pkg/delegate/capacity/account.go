package capacity

import (
	"maps"
	"regexp"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// account knows each node, what is requested on it, and which class it is in. Its methods say whether they changed anything that a
// summary shows. It keeps the objects that it is given and never changes them. It is safe for concurrent use.
type account struct {
	excluded *regexp.Regexp // nil excludes nothing

	mu        sync.Mutex // guards what follows
	resources *resourceNames
	nodes     map[string]*nodeAccount
	pods      map[types.NamespacedName]*corev1.Pod // those that count, as they were counted
	delegates delegates
	shapes    map[string]*shape
	partition *partition
	moved     bool // A node has another shape since the partition was made.
	totals    totals
}

// newAccount makes an account that tells no labels whose key=value matches excluded, if that is not nil.
func newAccount(excluded *regexp.Regexp) *account {
	return &account{
		excluded:  excluded,
		resources: newResourceNames(),
		nodes:     map[string]*nodeAccount{},
		pods:      map[types.NamespacedName]*corev1.Pod{},
		delegates: delegates{},
		shapes:    map[string]*shape{},
		partition: &partition{},
	}
}

// setPod counts a pod, instead of the one of that name which it counted before.
func (a *account) setPod(pod *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !counts(pod) {
		return a.uncount(key)
	}
	before := a.pods[key]
	after := a.requests(pod)
	if before != nil && sameDelegate(before, pod) {
		a.pods[key] = pod // The old one is garbage elsewhere.
		if pod.Spec.NodeName == before.Spec.NodeName && slices.Equal(after, a.requests(before)) {
			return false
		}
		left := a.countOn(before, a.requests(before), -1)
		return a.countOn(pod, after, +1) || left
	}
	left := a.uncount(key)
	a.pods[key] = pod
	listed := a.delegates.add(key, pod)
	return a.countOn(pod, after, +1) || left || listed
}

// removePod forgets a pod.
func (a *account) removePod(key types.NamespacedName) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.uncount(key)
}

// setNode adds or replaces a node.
func (a *account) setNode(node *corev1.Node) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry := a.nodeAccount(node.Name)
	before := *entry
	a.totals.add(entry, -1)
	entry.set(node, a.resources, a.excluded)
	a.totals.add(entry, +1)
	if !entry.real && !before.real {
		return false
	}
	moved := a.reshape(entry)
	if !moved && entry.schedulable == before.schedulable && maps.Equal(before.labels, entry.labels) &&
		slices.Equal(before.capacity, entry.capacity) && slices.Equal(before.allocatable, entry.allocatable) {
		return false
	}
	entry.change()
	a.totals.labels = nil
	return true
}

// removeNode forgets a node, but not the pods there.
func (a *account) removeNode(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	entry, ok := a.nodes[name]
	if !ok {
		return false
	}
	wasReal := entry.real
	a.totals.add(entry, -1)
	a.totals.labels = nil
	entry.unset()
	a.reshape(entry)
	a.dropEmpty(name, entry)
	return wasReal
}

// orderDelegates orders the delegates that are known by when they were scheduled, rather than by when they became known.
func (a *account) orderDelegates() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delegates.order(a.pods)
}

// uncount must be called under the lock.
func (a *account) uncount(key types.NamespacedName) bool {
	pod, ok := a.pods[key]
	if !ok {
		return false
	}
	delete(a.pods, key)
	listed := a.delegates.remove(key, pod)
	return a.countOn(pod, a.requests(pod), -1) || listed
}

// countOn must be called under the lock. It counts the pod in or out on its node.
func (a *account) countOn(pod *corev1.Pod, requested amounts, sign int64) bool {
	node := a.nodeAccount(pod.Spec.NodeName)
	node.count(source(pod), requested, sign)
	if node.schedulable {
		a.totals.count(source(pod), requested, sign)
	}
	node.change()
	a.dropEmpty(pod.Spec.NodeName, node)
	return node.real
}

// nodeAccount must be called under the lock.
func (a *account) nodeAccount(name string) *nodeAccount {
	node, ok := a.nodes[name]
	if !ok {
		node = &nodeAccount{}
		a.nodes[name] = node
	}
	return node
}

// dropEmpty must be called under the lock.
func (a *account) dropEmpty(name string, node *nodeAccount) {
	if node.node == nil && node.requested.at(pods) == 0 {
		delete(a.nodes, name)
	}
}

// requests is what kube-scheduler counts for the pod, and the pod itself.
func (a *account) requests(pod *corev1.Pod) amounts {
	requested := a.resources.amounts(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	requested.grow(pods + 1)
	requested[pods] = 1
	return requested
}

// counts says whether the pod takes room on a node.
func counts(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// sameDelegate says whether both are of the same source and proxy, or of none.
func sameDelegate(a, b *corev1.Pod) bool {
	return source(a) == source(b) && proxy(a) == proxy(b)
}

// source is the cluster that the pod is a delegate of, or empty.
func source(pod *corev1.Pod) string {
	return pod.Labels[v1alpha1.LabelParentClusterID]
}

// proxy is the UID of the pod that the pod is a delegate of, or empty.
func proxy(pod *corev1.Pod) string {
	return pod.Labels[v1alpha1.LabelParentUID]
}
