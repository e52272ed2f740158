package capacity

import (
	containers "container/list"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// maxLatest is the number of listed delegates of a source. The list has the first latestLength characters of the
	// UIDs of their proxies.
	maxLatest    = 256
	latestLength = 8
	// maxSources is the number of listed sources. Any tenant can give a pod the label of another source.
	maxSources = 100
)

// delegates holds each source's delegates in the order in which they were first counted.
type delegates map[string]*delegateQueue

type delegateQueue struct {
	order  *containers.List // of types.NamespacedName
	places map[types.NamespacedName]*containers.Element
}

// add puts the pod at the end if it is a delegate, and returns whether it is.
func (d delegates) add(key types.NamespacedName, pod *corev1.Pod) bool {
	id := sourceID(pod)
	if id == "" || proxyUID(pod) == "" {
		return false
	}
	q, ok := d[id]
	if !ok {
		q = &delegateQueue{order: containers.New(), places: map[types.NamespacedName]*containers.Element{}}
		d[id] = q
	}
	q.places[key] = q.order.PushBack(key)
	return true
}

// remove forgets the pod, and returns whether it was there. The pod is the same object as for add.
func (d delegates) remove(key types.NamespacedName, pod *corev1.Pod) bool {
	q, ok := d[sourceID(pod)]
	if !ok || q.places[key] == nil {
		return false
	}
	q.order.Remove(q.places[key])
	delete(q.places, key)
	if len(q.places) == 0 {
		delete(d, sourceID(pod))
	}
	return true
}

// order sorts all delegates by the time at which they were scheduled.
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

// most returns the sources with the most delegates, at most maxSources, in the order of the argument.
func (d delegates) most(ids []string) []string {
	if len(ids) <= maxSources {
		return ids
	}
	byNumber := slices.Clone(ids)
	slices.SortStableFunc(byNumber, func(a, b string) int { return d.number(b) - d.number(a) })
	left := sets.New(byNumber[maxSources:]...)
	return slices.DeleteFunc(ids, left.Has)
}

func (d delegates) number(id string) int {
	if q, ok := d[id]; ok {
		return len(q.places)
	}
	return 0
}

// latest returns the last delegates of a source, the latest at the end.
func (d delegates) latest(id string, pods map[types.NamespacedName]*corev1.Pod) []string {
	q, ok := d[id]
	if !ok {
		return nil
	}
	latest := make([]string, 0, min(maxLatest, q.order.Len()))
	for e := q.order.Back(); e != nil && len(latest) < maxLatest; e = e.Prev() {
		uid := proxyUID(pods[e.Value.(types.NamespacedName)]) //nolint:forcetypeassert // add put it there
		latest = append(latest, uid[:min(latestLength, len(uid))])
	}
	slices.Reverse(latest)
	return latest
}

// scheduled returns the time at which the pod was scheduled, or else the time of its creation.
func scheduled(pod *corev1.Pod) time.Time {
	c := translate.PodCondition(pod.Status.Conditions, corev1.PodScheduled)
	if c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime.Time
	}
	return pod.CreationTimestamp.Time
}
