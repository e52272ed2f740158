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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// account holds each node with the requests and the shape of the node. Its methods return whether they changed anything
// that a summary shows. It keeps the given objects and never changes them. It is safe for concurrent use.
type account struct {
	excluded *regexp.Regexp // nil excludes nothing

	mu        sync.Mutex // guards the fields below
	resources *resourceNames
	nodes     map[string]*nodeAccount
	pods      map[types.NamespacedName]*corev1.Pod // the pods that count, as they were counted
	delegates delegates
	devices   devices
	shapes    map[string]*shape
	partition *partition
	moved     bool // A node changed its shape since the partition was computed.
	totals    totals
}

// newAccount returns an empty account. It leaves out labels whose key=value matches excluded, unless excluded is nil.
func newAccount(excluded *regexp.Regexp) *account {
	return &account{
		excluded:  excluded,
		resources: newResourceNames(),
		nodes:     map[string]*nodeAccount{},
		pods:      map[types.NamespacedName]*corev1.Pod{},
		delegates: delegates{},
		devices:   devices{},
		shapes:    map[string]*shape{},
		partition: &partition{},
	}
}

// setPod counts a pod, in place of the pod of the same name that it counted before.
func (a *account) setPod(pod *corev1.Pod) bool {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !counts(pod) {
		return a.uncount(key)
	}
	before := a.pods[key]
	after := a.requests(pod)
	if before != nil && sameDelegate(before, pod) && podcache.BelongsToNode(before) == podcache.BelongsToNode(pod) {
		a.pods[key] = pod // Lets the cache's old object be collected.
		if pod.Spec.NodeName == before.Spec.NodeName && slices.Equal(after, a.requests(before)) {
			return false
		}
		changed := a.countOn(before, a.requests(before), -1)
		return a.countOn(pod, after, +1) || changed
	}
	changed := a.uncount(key)
	a.pods[key] = pod
	listed := a.delegates.add(key, pod)
	return a.countOn(pod, after, +1) || changed || listed
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
	if !isVirtual(node) {
		a.recount(a.resources.learn(&node.Status))
	}
	before := *entry
	a.totals.add(entry, -1)
	entry.set(node, a.resources, a.excluded)
	a.totals.add(entry, +1)
	if !entry.real && !before.real {
		return false
	}
	moved := a.reshape(entry)
	if !moved && entry.schedulable == before.schedulable && maps.Equal(before.labels, entry.labels) &&
		slices.Equal(before.features, entry.features) &&
		slices.Equal(before.capacity, entry.capacity) && slices.Equal(before.allocatable, entry.allocatable) {
		return false
	}
	entry.markChanged()
	a.totals.labels = nil
	return true
}

// removeNode forgets a node, but not the pods on the node.
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

// orderDelegates orders the delegates by the times at which they were scheduled, not at which they were counted.
func (a *account) orderDelegates() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.delegates.order(a.pods)
}

// uncount takes the pod out of the account. The caller holds the lock.
func (a *account) uncount(key types.NamespacedName) bool {
	pod, ok := a.pods[key]
	if !ok {
		return false
	}
	delete(a.pods, key)
	listed := a.delegates.remove(key, pod)
	return a.countOn(pod, a.requests(pod), -1) || listed
}

// countOn adds the pod to its node (sign 1) or removes it (sign -1). The caller holds the lock.
func (a *account) countOn(pod *corev1.Pod, requested amounts, sign int64) bool {
	node := a.nodeAccount(pod.Spec.NodeName)
	node.count(sourceID(pod), requested, sign)
	if podcache.BelongsToNode(pod) {
		node.tied.addAll(requested, sign)
	}
	if node.schedulable {
		a.totals.count(sourceID(pod), requested, sign)
	}
	node.markChanged()
	a.dropEmpty(pod.Spec.NodeName, node)
	return node.real
}

// recount counts what pods request of the resources from a place on. Until now, no node had them. The caller holds the
// lock.
func (a *account) recount(firstNew int) {
	if firstNew == len(a.resources.names) {
		return
	}
	for _, pod := range a.pods {
		if requested := a.requests(pod); len(requested) > firstNew {
			clear(requested[:firstNew])
			a.countOn(pod, requested, +1)
		}
	}
}

// nodeAccount returns the entry of the node, which may be new. The caller holds the lock.
func (a *account) nodeAccount(name string) *nodeAccount {
	node, ok := a.nodes[name]
	if !ok {
		node = &nodeAccount{}
		a.nodes[name] = node
	}
	return node
}

// dropEmpty forgets a node that does not exist and has no pods. The caller holds the lock.
func (a *account) dropEmpty(name string, node *nodeAccount) {
	if node.node == nil && node.requested.at(pods) == 0 {
		delete(a.nodes, name)
	}
}

// requests returns the amounts that kube-scheduler counts for the pod, with one pod.
func (a *account) requests(pod *corev1.Pod) amounts {
	requested := a.resources.amounts(resource.PodRequests(pod, resource.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
	}))
	requested.grow(pods + 1)
	requested[pods] = 1
	return requested
}

// counts says whether the pod takes up capacity of a node.
func counts(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !translate.Finished(pod.Status.Phase)
}

// sameDelegate says whether both pods are delegates of the same proxy, or both are no delegates.
func sameDelegate(a, b *corev1.Pod) bool {
	return sourceID(a) == sourceID(b) && proxyUID(a) == proxyUID(b)
}

// sourceID returns the ID of the delegate's source, empty for other pods.
func sourceID(pod *corev1.Pod) string {
	return pod.Labels[v1alpha1.LabelParentClusterID]
}

// proxyUID returns the UID of the delegate's proxy, empty for other pods.
func proxyUID(pod *corev1.Pod) string {
	return pod.Labels[v1alpha1.LabelParentUID]
}
