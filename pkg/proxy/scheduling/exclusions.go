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

const (
	firstExclusion   = 30 * time.Second
	longestExclusion = 5 * time.Minute
)

// exclusions knows which targets are left out for which pods, because they refused them.
type exclusions struct {
	clock clock.WithDelayedExecution
	// lifted is called, without a lock, when a pod's back-off for a target has passed.
	lifted func(key types.NamespacedName, pod types.UID)

	mu    sync.Mutex // guards byPod and all in it
	byPod map[types.UID]map[string]*exclusion
}

// exclusion of a target, by its node's name, for a pod. It remains, without a reason, after it is lifted, to know how often it happened.
type exclusion struct {
	reason string
	times  int
	timer  clock.Timer
}

func newExclusions(c clock.WithDelayedExecution, lifted func(types.NamespacedName, types.UID)) *exclusions {
	return &exclusions{clock: c, lifted: lifted, byPod: map[types.UID]map[string]*exclusion{}}
}

// add leaves a target out for a pod, each time for longer.
func (e *exclusions) add(pod *corev1.Pod, nodeName, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	of, ok := e.byPod[pod.UID]
	if !ok {
		of = map[string]*exclusion{}
		e.byPod[pod.UID] = of
	}
	x, ok := of[nodeName]
	if !ok {
		x = &exclusion{}
		of[nodeName] = x
	}
	x.lift()
	x.reason = reason
	x.times++
	key, uid, times := client.ObjectKeyFromObject(pod), pod.UID, x.times
	x.timer = e.clock.AfterFunc(backoff(times), func() { e.expire(key, uid, nodeName, times) })
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

func (e *exclusions) expire(key types.NamespacedName, pod types.UID, nodeName string, times int) {
	if e.end(pod, nodeName, times) {
		e.lifted(key, pod)
	}
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

func backoff(times int) time.Duration {
	return min(firstExclusion<<min(times-1, 10), longestExclusion)
}
