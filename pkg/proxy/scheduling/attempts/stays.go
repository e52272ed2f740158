package attempts

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Stay is a pod's wait in a target that has not scheduled the delegate. Its zero value is none.
type Stay struct {
	NodeName string
	Since    time.Time
	// Looks are how often other targets were looked at in vain since.
	Looks int
	// Invited says that other targets are to be looked at now, while this one keeps the delegate.
	Invited bool
}

// StayIn notes that a pod waits in the target of a node, and returns since when. A pod goes on waiting there until its
// attempt fails, or the pod moves.
func (a *Attempts) StayIn(pod *corev1.Pod, nodeName string) Stay {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.recordOf(pod)
	if r.stay.NodeName != nodeName {
		r.stay = Stay{NodeName: nodeName, Since: a.clock.Now()}
	}
	r.stay.Invited = false
	return r.stay
}

// Invited notes that other targets are to be looked at for the pod.
func (a *Attempts) Invited(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.byPod[pod]; ok {
		r.stay.Invited = true
		r.stay.Looks++
	}
}

// Declined notes that the pod cannot move: its target is deciding.
func (a *Attempts) Declined(pod types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r, ok := a.byPod[pod]; ok {
		r.stay.Invited = false
	}
}

// Moved notes that the pod moves away from the target in which it waited. That ends the pod's trial.
func (a *Attempts) Moved(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.recordOf(pod)
	r.exclusionOf(pod, r.stay.NodeName).moves++
	r.stay = Stay{}
	r.endTrial()
}
