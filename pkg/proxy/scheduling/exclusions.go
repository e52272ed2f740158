package scheduling

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// longestExclusion is how long a target is left out for a pod at most.
const longestExclusion = 5 * time.Minute

// refusal is in what way a target refused a pod, which says when it may be asked again.
type refusal int

const (
	// unschedulable is the word of the target's scheduler: asked again when the summary shows more room, but not at
	// once each time: it had shown room before.
	unschedulable refusal = iota
	// forbidden is the word of the target's API server. A summary does not tell when that changes.
	forbidden
	// late is a target that did not decide in time: asked again when it has more room. The back-off of all that follow
	// is the same.
	late
	// elsewhere is a target that is given up because the pod's delegate is scheduled in another target.
	elsewhere
	// createFailed is a target in which the PodChaperon could not be created, although the target did not refuse it.
	createFailed
	// stillEnding is a target in which an earlier delegate of the pod is still being deleted.
	stillEnding
	// rightsMissing is a target that does not allow the source to create PodChaperons. After connecting, rights arrive
	// with a delay: asked again after a second, and then less and less often.
	rightsMissing
)

// backOff says for how long a target is left out whatever happens, and for how long if nothing does.
func (r refusal) backOff(times int) (held, longest time.Duration) {
	doubled := func(first time.Duration) time.Duration { return min(first<<min(times-1, 10), longestExclusion) }
	switch r {
	case unschedulable:
		return doubled(time.Second), longestExclusion
	case forbidden:
		held = doubled(30 * time.Second)
		return held, held
	case rightsMissing:
		held = doubled(time.Second)
		return held, held
	default:
		return 0, doubled(30 * time.Second)
	}
}

// exclusions knows which targets are left out for which pods, because they refused them.
type exclusions struct {
	clock clock.WithDelayedExecution
	// lifted is called, without a lock, when a target is no longer left out for a pod because time has passed.
	lifted func(key types.NamespacedName, pod types.UID)

	mu    sync.Mutex // guards byPod and all in it
	byPod map[types.UID]map[string]*exclusion
}

// exclusion of a target, by its node's name, for a pod. It remains, without a reason, after it is lifted, to know how
// often it happened.
type exclusion struct {
	pod    types.NamespacedName
	reason string
	times  int
	held   time.Time // until when more room does not lift it
	ends   time.Time
	timer  clock.Timer
}

func newExclusions(c clock.WithDelayedExecution, lifted func(types.NamespacedName, types.UID)) *exclusions {
	return &exclusions{clock: c, lifted: lifted, byPod: map[types.UID]map[string]*exclusion{}}
}

// add leaves a target out for a pod, each time for longer; no longer than it must where the target has more room by
// now.
func (e *exclusions) add(pod *corev1.Pod, nodeName string, kind refusal, reason string, roomier bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of, ok := e.byPod[pod.UID]
	if !ok {
		of = map[string]*exclusion{}
		e.byPod[pod.UID] = of
	}
	x, ok := of[nodeName]
	if !ok {
		x = &exclusion{pod: client.ObjectKeyFromObject(pod)}
		of[nodeName] = x
	}
	x.times++
	held, longest := kind.backOff(x.times)
	x.reason = reason
	x.held = e.clock.Now().Add(held)
	if roomier {
		longest = held
	}
	e.expireAfter(longest, x, pod.UID, nodeName)
}

// expireAfter must be called with the lock held.
func (e *exclusions) expireAfter(d time.Duration, x *exclusion, pod types.UID, nodeName string) {
	if x.timer != nil {
		x.timer.Stop()
	}
	times := x.times
	x.ends = e.clock.Now().Add(d)
	x.timer = e.clock.AfterFunc(d, func() {
		if e.end(pod, nodeName, times) {
			e.lifted(x.pod, pod)
		}
	})
}

// reasons returns why targets, by their nodes' names, are left out for a pod; nil if none is.
func (e *exclusions) reasons(pod types.UID) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var reasons map[string]string
	for nodeName, x := range e.byPod[pod] {
		if x.reason == "" {
			continue
		}
		if reasons == nil {
			reasons = make(map[string]string, len(e.byPod[pod]))
		}
		reasons[nodeName] = x.reason
	}
	return reasons
}

// refusals returns how often targets, by their nodes' names, refused a pod; nil if none did.
func (e *exclusions) refusals(pod types.UID) map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	var refusals map[string]int
	for nodeName, x := range e.byPod[pod] {
		if refusals == nil {
			refusals = make(map[string]int, len(e.byPod[pod]))
		}
		refusals[nodeName] = x.times
	}
	return refusals
}

// moreRoom in a target ends its exclusion for all pods, at once or when they have been held long enough.
func (e *exclusions) moreRoom(nodeName string) {
	for pod, key := range e.released(nodeName) {
		e.lifted(key, pod)
	}
}

// released are the pods whose exclusion ends at once.
func (e *exclusions) released(nodeName string) map[types.UID]types.NamespacedName {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, released := e.clock.Now(), map[types.UID]types.NamespacedName{}
	for pod, of := range e.byPod {
		x, ok := of[nodeName]
		switch {
		case !ok || x.reason == "":
		case !x.held.After(now):
			x.lift()
			released[pod] = x.pod
		case x.held.Before(x.ends):
			e.expireAfter(x.held.Sub(now), x, pod, nodeName)
		}
	}
	return released
}

// lift ends the exclusion of a target for all pods. The caller wakes them.
func (e *exclusions) lift(nodeName string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for of := range maps.Values(e.byPod) {
		if x, ok := of[nodeName]; ok {
			x.lift()
		}
	}
}

// forget a pod that is bound or gone.
func (e *exclusions) forget(pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.byPod[pod] {
		x.lift()
	}
	delete(e.byPod, pod)
}

// end says whether the exclusion was still the one that expired.
func (e *exclusions) end(pod types.UID, nodeName string, times int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, ok := e.byPod[pod][nodeName]
	if !ok || x.times != times || x.reason == "" {
		return false
	}
	x.lift()
	return true
}

func (x *exclusion) lift() {
	x.reason = ""
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
}
