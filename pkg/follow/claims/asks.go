package claims

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// askedFor is how long the PodChaperon of a pod may still come after the pod has asked for a claim in a target. What
// else the pod needs is ensured first, and then the target may carry out late what it was asked for.
const askedFor = timeouts.EnsureNeeds + timeouts.Request + timeouts.HoldDuration

// asks are the pods that asked for claims in targets a while ago. Several pods may share a claim: one must not take the
// copy from another whose PodChaperon is about to come. The zero value is ready for use.
type asks struct {
	mu      sync.Mutex // guards byClaim
	byClaim map[types.NamespacedName]map[types.UID]question
}

// question is where and when a pod asked last.
type question struct {
	in location
	at time.Time
}

// note notes that a pod asks for a claim in a target now, and nowhere else any more.
func (a *asks) note(key types.NamespacedName, pod types.UID, in location, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byClaim == nil {
		a.byClaim = map[types.NamespacedName]map[types.UID]question{}
	}
	if a.byClaim[key] == nil {
		a.byClaim[key] = map[types.UID]question{}
	}
	a.byClaim[key][pod] = question{in, now}
}

// withdraw notes that a target was given up for a pod.
func (a *asks) withdraw(key types.NamespacedName, pod types.UID, in location) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if last, ok := a.byClaim[key][pod]; ok && last.in.sameClusterAs(in) {
		delete(a.byClaim[key], pod)
	}
}

// wait returns how long the PodChaperon of another pod than this one may still come to the cluster of a target.
func (a *asks) wait(key types.NamespacedName, in location, except types.UID, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var wait time.Duration
	for pod, last := range a.byClaim[key] {
		if pod != except && last.in.sameClusterAs(in) {
			wait = max(wait, last.at.Add(askedFor).Sub(now))
		}
	}
	return wait
}

// tidy forgets the pods that asked before a time, which must be so long ago that their PodChaperons do not come any
// more.
func (a *asks) tidy(before time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, pods := range a.byClaim {
		maps.DeleteFunc(pods, func(_ types.UID, last question) bool { return last.at.Before(before) })
		if len(pods) == 0 {
			delete(a.byClaim, key)
		}
	}
}
