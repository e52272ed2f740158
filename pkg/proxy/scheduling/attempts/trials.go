package attempts

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

// Prospect is how a target may take a pod. Smaller ones are tried first.
type Prospect int

const (
	// Fits means that the target has room. No trial is needed.
	Fits Prospect = iota
	// Unsure means that the pod's constraints are about properties of nodes that the target does not publish.
	Unsure
	// Preempt means that the pod is more important than others of the source in the target.
	Preempt
	// Grow means that the target can add a node for the pod.
	Grow
	// Queue means that the target has room, but holds pods like this one back by scheduling gates.
	Queue
	// Hopeless means that the target cannot take the pod. There is nothing to try.
	Hopeless
)

// String is for users: the kind of the trial, or nothing where there is none.
func (p Prospect) String() string {
	switch p {
	case Unsure:
		return diagnosis.TrialUnsure
	case Preempt:
		return diagnosis.TrialPreempt
	case Grow:
		return diagnosis.TrialGrow
	case Queue:
		return diagnosis.TrialQueue
	default:
		return ""
	}
}

// Trial names the one target that a pod is placed in although it does not fit there now. Its zero value is no trial.
type Trial struct {
	NodeName string
	Prospect Prospect
}

// Exists says whether there is a trial.
func (t Trial) Exists() bool { return t.Prospect != Fits }

// Try puts a pod, for which no target was found, into the trial that was chosen among prospects, by the nodes of
// targets. The zero Trial means that there is none to begin. The pod's last trial has then ended without success.
func (a *Attempts) Try(pod types.UID, next Trial, prospects map[string]Prospect) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.byPod[pod]
	if !ok {
		return
	}
	if !next.Exists() {
		r.endTrial()
		return
	}
	r.trial, r.prospects, r.trialEnded = next, prospects, false
}

// Next is what to do about a pod for which no target was found.
type Next struct {
	// Trial is to be begun, if it exists. Prospects are those among which it was chosen, by the nodes of targets.
	Trial     Trial
	Prospects map[string]Prospect
	// Again says that a trial has ended, so that all targets are to be looked at again.
	Again bool
}

// TakeNext returns what to do about a pod for which no target was found. It says only once that a trial has ended.
func (a *Attempts) TakeNext(pod types.UID) Next {
	a.mu.Lock()
	defer a.mu.Unlock()
	r, ok := a.byPod[pod]
	if !ok {
		return Next{}
	}
	next := Next{Trial: r.trial, Prospects: r.prospects, Again: r.trialEnded}
	r.trialEnded = false
	return next
}

func (r *record) endTrial() {
	if r.trial.Exists() {
		r.trialEnded = true
	}
	r.trial, r.prospects = Trial{}, nil
}
