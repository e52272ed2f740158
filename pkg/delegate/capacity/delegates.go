package capacity

import (
	containers "container/list"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxLatest delegates of each source are listed, by the first latestLength characters of their proxies' UIDs.
	maxLatest    = 256
	latestLength = 8
)

// delegates lists each source's delegates in the order in which they were first counted.
type delegates map[string]*queue

type queue struct {
	order  *containers.List // of types.NamespacedName
	places map[types.NamespacedName]*containers.Element
}

// add puts the pod last, if it is a delegate; it says whether it is.
func (d delegates) add(key types.NamespacedName, pod *corev1.Pod) bool {
	id := source(pod)
	if id == "" || proxy(pod) == "" {
		return false
	}
	q, ok := d[id]
	if !ok {
		q = &queue{order: containers.New(), places: map[types.NamespacedName]*containers.Element{}}
		d[id] = q
	}
	q.places[key] = q.order.PushBack(key)
	return true
}

// remove forgets the pod, which is as it was when it was added; it says whether it was.
func (d delegates) remove(key types.NamespacedName, pod *corev1.Pod) bool {
	q, ok := d[source(pod)]
	if !ok || q.places[key] == nil {
		return false
	}
	q.order.Remove(q.places[key])
	delete(q.places, key)
	if len(q.places) == 0 {
		delete(d, source(pod))
	}
	return true
}

// order orders all delegates by when they were scheduled, as far as they tell.
func (d delegates) order(pods map[types.NamespacedName]*corev1.Pod) {
	for _, q := range d {
		var keys []types.NamespacedName
		for key := range q.places {
			keys = append(keys, key)
		}
		slices.SortFunc(keys, func(a, b types.NamespacedName) int {
			if before := scheduled(pods[a]).Compare(scheduled(pods[b])); before != 0 {
				return before
			}
			return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
		})
		for _, key := range keys {
			q.order.MoveToBack(q.places[key])
		}
	}
}

// latest is the last delegates of a source, the last one last.
func (d delegates) latest(id string, pods map[types.NamespacedName]*corev1.Pod) []string {
	q, ok := d[id]
	if !ok {
		return nil
	}
	latest := make([]string, 0, min(maxLatest, q.order.Len()))
	for e := q.order.Back(); e != nil && len(latest) < maxLatest; e = e.Prev() {
		uid := proxy(pods[e.Value.(types.NamespacedName)]) //nolint:forcetypeassert // as put in above
		latest = append(latest, uid[:min(latestLength, len(uid))])
	}
	slices.Reverse(latest)
	return latest
}

// scheduled is when the pod was given its node, or else when it was made.
func scheduled(pod *corev1.Pod) time.Time {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionTrue && !condition.LastTransitionTime.IsZero() {
			return condition.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}
