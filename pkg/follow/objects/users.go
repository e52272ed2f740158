package objects

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// users counts the living proxies that refer to objects.
type users struct {
	mu         sync.RWMutex // guards the counts
	onNodes    map[string]map[objectKey]int
	everywhere map[collection]int
}

func newUsers() *users {
	return &users{onNodes: map[string]map[objectKey]int{}, everywhere: map[collection]int{}}
}

// usage is the node and the needs of a living proxy.
type usage struct {
	namespace, node string
	needs           []needs.Need
}

// usageOf returns the usage of a pod of the manager's cache. The pod may be nil. A pod that ended needs nothing. Nor
// does a pod that is no proxy. Whether the pod may be in the target of its node is for the link to this target to say.
func usageOf(pod *corev1.Pod) usage {
	if pod == nil || !translate.IsProxy(pod) || translate.Finished(pod.Status.Phase) {
		return usage{}
	}
	return usage{pod.Namespace, pod.Spec.NodeName, podcache.Needs(pod)}
}

func (c usage) equal(other usage) bool {
	return c.namespace == other.namespace && c.node == other.node && slices.Equal(c.needs, other.needs)
}

func (c usage) objects() []objectKey {
	objects := make([]objectKey, len(c.needs))
	for i, need := range c.needs {
		objects[i] = objectKey{c.namespace, need.Ref}
	}
	return objects
}

// replaceUsage counts a usage in place of another.
func (u *users) replaceUsage(before, after usage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.countUsage(after, 1)
	u.countUsage(before, -1)
}

func (u *users) countUsage(c usage, by int) {
	for _, o := range c.objects() {
		addCount(u.everywhere, o.collection(), by)
		if c.node == "" {
			continue
		}
		if u.onNodes[c.node] == nil {
			u.onNodes[c.node] = map[objectKey]int{}
		}
		addCount(u.onNodes[c.node], o, by)
	}
	if len(u.onNodes[c.node]) == 0 {
		delete(u.onNodes, c.node)
	}
}

func addCount[K comparable](counts map[K]int, key K, by int) {
	if counts[key] += by; counts[key] == 0 {
		delete(counts, key)
	}
}

// isNeeded says whether a proxy that is bound to the node needs the object.
func (u *users) isNeeded(node string, o objectKey) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.onNodes[node][o] > 0
}

// neededOn returns the objects that proxies on a node need.
func (u *users) neededOn(node string) []objectKey {
	u.mu.RLock()
	defer u.mu.RUnlock()
	objects := make([]objectKey, 0, len(u.onNodes[node]))
	for o := range u.onNodes[node] {
		objects = append(objects, o)
	}
	return objects
}

// isReferredTo says whether any proxy refers to an object of the collection.
func (u *users) isReferredTo(c collection) bool {
	u.mu.RLock()
	defer u.mu.RUnlock()
	return u.everywhere[c] > 0
}
