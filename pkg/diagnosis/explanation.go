package diagnosis

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation is everything that the scheduler knows of one pod, for people and programs.
type Explanation struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Node is the virtual node that the pod is bound to, or empty.
	Node string `json:"node,omitempty"`
	// Message is the full message of the last scheduling cycle, if the cycle found no target. Otherwise it may say why
	// the pod does not go to the one that was chosen.
	Message string `json:"message,omitempty"`
	// Time is when the scheduler last looked at the targets.
	Time metav1.Time `json:"time,omitzero"`
	// Targets are the targets as the scheduler last saw them: the chosen one first, then the best. If one was chosen,
	// there are at most ten.
	Targets []Target `json:"targets,omitempty"`
	// OtherTargets is the number of targets that the scheduler saw and Targets leaves out.
	OtherTargets int `json:"otherTargets,omitempty"`
	// Attempts are the last twenty attempts, the oldest first.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Target is one target as the scheduler saw it for one pod.
type Target struct {
	// Name is the name of the ClusterTarget, or namespace/name of the Target.
	Name string `json:"name"`
	// Node is the target's virtual node.
	Node   string `json:"node"`
	Chosen bool   `json:"chosen,omitempty"`
	// Score is the total score, nil if the target was not scored.
	Score *int64 `json:"score,omitempty"`
	// Scores are the weighted scores by plugin.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Reason is why the target cannot take the pod now, empty if it can.
	Reason string `json:"reason,omitempty"`
	// Trial is how the target can perhaps take the pod all the same: one of the Trial constants, or empty.
	Trial string `json:"trial,omitempty"`
}

// The kinds of trial: how a target without room for a pod can perhaps take the pod.
const (
	// TrialUnsure means that only the target knows whether the pod fits.
	TrialUnsure = "unsure"
	// TrialPreempt means that the target may evict pods of lower priority.
	TrialPreempt = "preempt"
	// TrialGrow means that the target may add a node.
	TrialGrow = "grow"
	// TrialQueue means that the target has room, but holds pods like this one back by scheduling gates.
	TrialQueue = "queue"
)

// Decision is the scheduler's decision on the target, in a word or two.
func (t *Target) Decision() string {
	switch {
	case t.Chosen:
		return "chosen"
	case t.Trial == TrialUnsure:
		return "unsure"
	case t.Trial != "":
		return "may " + t.Trial
	case t.Reason != "":
		return "no"
	default:
		return "fits"
	}
}

// Attempt is one placement of the pod in a target, from the request to its outcome.
type Attempt struct {
	// Target is the target's name, as in Target.Name.
	Target string `json:"target"`
	// Trial is the kind of trial, empty if the target seemed to have room.
	Trial string `json:"trial,omitempty"`
	// Started is zero if the attempt began under an earlier leader.
	Started metav1.MicroTime `json:"started,omitzero"`
	// Ended is zero while the attempt lasts.
	Ended   metav1.MicroTime `json:"ended,omitzero"`
	Outcome Outcome          `json:"outcome"`
	// Reason is the target's answer so far.
	Reason string `json:"reason,omitempty"`
}

// Outcome is the result of an Attempt. It is also a metric label: the values never change.
type Outcome string

const (
	// Waiting means that the target has not decided yet.
	Waiting Outcome = "Waiting"
	// Moved means that the target had not decided, and the pod moved to another one that had room.
	Moved Outcome = "Moved"
	// Bound means that the target scheduled the delegate, so that the pod is bound to the target's virtual node.
	Bound Outcome = "Bound"
	// Refused means that the target does not take the pod.
	Refused Outcome = "Refused"
	// TimedOut means that the target did not decide in time, and nothing else.
	TimedOut Outcome = "TimedOut"
	// Lost means that nobody knows what the target decided: it was disconnected or deleted, or requests failed.
	Lost Outcome = "Lost"
	// ScheduledElsewhere means that the pod's delegate is scheduled in another target.
	ScheduledElsewhere Outcome = "ScheduledElsewhere"
	// CreateFailed means that the PodChaperon could not be created: the target's API server gave no answer, or an error
	// that is no refusal.
	CreateFailed Outcome = "CreateFailed"
	// StillEnding means that an earlier delegate of the pod is still being deleted in the target.
	StillEnding Outcome = "StillEnding"
)

// Words describes the outcome in a clause whose "it" is the target.
func (o Outcome) Words() string {
	switch o {
	case Waiting:
		return "it has not decided yet"
	case Bound:
		return "it took the pod"
	case Refused:
		return "it does not take the pod"
	case TimedOut:
		return "it did not decide in time"
	case Lost:
		return "its decision is not known"
	case ScheduledElsewhere:
		return "the pod's delegate is scheduled in another target"
	case CreateFailed:
		return "the delegate could not be requested"
	case StillEnding:
		return "an earlier delegate of the pod is still being deleted there"
	default:
		return string(o)
	}
}

func (e *Explanation) deepCopy() Explanation {
	c := *e
	c.Targets = slices.Clone(e.Targets)
	for i := range c.Targets {
		t := &c.Targets[i]
		t.Scores = maps.Clone(t.Scores)
		if t.Score != nil {
			score := *t.Score
			t.Score = &score
		}
	}
	c.Attempts = slices.Clone(e.Attempts)
	return c
}
