package attempts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// longestExclusion is how long a target is left out for a pod at most.
	longestExclusion = 5 * time.Minute
	// maxReason is how much is remembered of a reason, in bytes: it is the target's.
	maxReason = 1 << 10
)

// BackOff says when a target that refused a pod may be given that pod again. Each refusal doubles the time.
type BackOff int

const (
	// UntilMoreRoom waits for more room, and at least a second: the target had shown room before it refused.
	UntilMoreRoom BackOff = iota
	// FixedTime waits half a minute, whatever the target's room: no summary reports that its answer has changed.
	FixedTime
	// TimeOrMoreRoom waits half a minute, or for more room.
	TimeOrMoreRoom
	// TimeOrMoreRoomLater waits half a minute, or for more room, but for at least a second: more room may mean that a
	// quota has some, too.
	TimeOrMoreRoomLater
	// ShortTime waits a second: after connecting, rights arrive with a delay.
	ShortTime
)

// times returns for how long a target is left out whatever happens, and for how long if nothing does, when it refuses
// the pod for the given time.
func (b BackOff) times(refusals int) (held, longest time.Duration) {
	doubled := func(first time.Duration) time.Duration { return min(first<<min(refusals-1, 10), longestExclusion) }
	switch b {
	case UntilMoreRoom:
		return doubled(time.Second), longestExclusion
	case TimeOrMoreRoomLater:
		return doubled(time.Second), doubled(30 * time.Second)
	case FixedTime:
		held = doubled(30 * time.Second)
		return held, held
	case ShortTime:
		held = doubled(time.Second)
		return held, held
	default:
		return 0, doubled(30 * time.Second)
	}
}

// exclusion of a node's target for a pod. It remains, without a reason, after it is lifted, because the number of
// refusals counts.
type exclusion struct {
	nodeName string
	pod      types.NamespacedName
	uid      types.UID // of the pod

	reason   string
	backOff  BackOff
	refusals int
	moves    int       // of the pod, away from the target
	held     time.Time // until when more room does not lift it
	ends     time.Time
	timer    clock.Timer
}

// exclude leaves a target out for a pod, each time for longer, and for the shortest time possible where the target has
// shown more room since. It must be called with the lock held.
func (a *Attempts) exclude(r *record, pod *corev1.Pod, failure Failure) {
	x := r.exclusionOf(pod, failure.NodeName)
	x.refusals++
	x.backOff = failure.BackOff
	held, longest := failure.BackOff.times(x.refusals)
	x.reason = translate.Shorten(failure.Reason, maxReason)
	x.held = a.clock.Now().Add(held)
	if failure.MoreRoom {
		longest = held
	}
	if a.excluded[x.nodeName] == nil {
		a.excluded[x.nodeName] = sets.New[*exclusion]()
	}
	a.excluded[x.nodeName].Insert(x)
	a.expireAfter(longest, x)
}

// exclusionOf returns what is remembered of a target, which may have refused nothing.
func (r *record) exclusionOf(pod *corev1.Pod, nodeName string) *exclusion {
	x, ok := r.exclusions[nodeName]
	if !ok {
		x = &exclusion{nodeName: nodeName, pod: client.ObjectKeyFromObject(pod), uid: pod.UID}
		if r.exclusions == nil {
			r.exclusions = map[string]*exclusion{}
		}
		r.exclusions[nodeName] = x
	}
	return x
}

// expireAfter must be called with the lock held.
func (a *Attempts) expireAfter(d time.Duration, x *exclusion) {
	if x.timer != nil {
		x.timer.Stop()
	}
	refusals := x.refusals
	x.ends = a.clock.Now().Add(d)
	x.timer = a.clock.AfterFunc(d, func() {
		if a.expire(x, refusals) {
			a.lifted(x.pod, x.uid)
		}
	})
}

// expire says whether the exclusion was still the one that expired.
func (a *Attempts) expire(x *exclusion, refusals int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if x.refusals != refusals || x.reason == "" {
		return false
	}
	a.lift(x)
	return true
}

// recallTargets fills in what is known of targets, by the names of their nodes.
func (r *record) recallTargets(memory *Memory) {
	for nodeName, x := range r.exclusions {
		note(&memory.Turns, nodeName, x.refusals+x.moves)
		if x.moves > 0 {
			note(&memory.Moves, nodeName, x.moves)
		}
		if x.reason == "" {
			continue
		}
		note(&memory.LeftOut, nodeName, x.reason)
		if x.backOff == UntilMoreRoom {
			note(&memory.NoNode, nodeName, true)
		}
	}
}

// note writes to a map that is made when something is in it.
func note[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// MoreRoom in the target of a node ends its exclusion for all pods, at once or when they have been held long enough.
func (a *Attempts) MoreRoom(nodeName string) {
	for _, x := range a.release(nodeName) {
		a.lifted(x.pod, x.uid)
	}
}

// release returns the exclusions that it has lifted at once.
func (a *Attempts) release(nodeName string) []*exclusion {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	var released []*exclusion
	for x := range a.excluded[nodeName] {
		switch {
		case !x.held.After(now):
			a.lift(x)
			released = append(released, x)
		case x.held.Before(x.ends):
			a.expireAfter(x.held.Sub(now), x)
		}
	}
	return released
}

// Lift ends the exclusion of a node's target for all pods. The caller wakes them.
func (a *Attempts) Lift(nodeName string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for x := range a.excluded[nodeName] {
		a.lift(x)
	}
}

// lift must be called with the lock held.
func (a *Attempts) lift(x *exclusion) {
	x.reason = ""
	if x.timer != nil {
		x.timer.Stop()
		x.timer = nil
	}
	a.excluded[x.nodeName].Delete(x)
	if len(a.excluded[x.nodeName]) == 0 {
		delete(a.excluded, x.nodeName)
	}
}
