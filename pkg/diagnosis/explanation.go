package diagnosis

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Explanation is what the scheduler knows of one pod, for people and programs.
type Explanation struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Node is the virtual node that the pod is bound to, or empty.
	Node string `json:"node,omitempty"`
	// Message is what the last scheduling cycle said, in full, if it found no target.
	Message string `json:"message,omitempty"`
	// Time is that of the last look at the targets.
	Time metav1.Time `json:"time,omitzero"`
	// Targets are as they were last looked at, the chosen one first, then the best. Where one was chosen, they are ten at most.
	Targets []Target `json:"targets,omitempty"`
	// OtherTargets is how many more were looked at.
	OtherTargets int `json:"otherTargets,omitempty"`
	// Attempts are the last twenty, oldest first.
	Attempts []Attempt `json:"attempts,omitempty"`
}

// Target is what the scheduler saw of one target.
type Target struct {
	// Name of the ClusterTarget, or namespace/name of the Target.
	Name string `json:"name"`
	// Node is its virtual node.
	Node   string `json:"node"`
	Chosen bool   `json:"chosen,omitempty"`
	// Score is the total, nil if it was not scored.
	Score *int64 `json:"score,omitempty"`
	// Scores are by plugin, weighted.
	Scores map[string]int64 `json:"scores,omitempty"`
	// Reason is why the target cannot take the pod now, empty if it can.
	Reason string `json:"reason,omitempty"`
	// Trial is how the target may take the pod nevertheless, given time: one of the constants Trial…, or empty.
	Trial string `json:"trial,omitempty"`
}

// What a target may need to take a pod that does not fit there now.
const (
	// TrialUnsure means that only the target knows whether the pod fits.
	TrialUnsure = "unsure"
	// TrialPreempt means that the target may evict pods of lower priority.
	TrialPreempt = "preempt"
	// TrialGrow means that the target may add a node.
	TrialGrow = "grow"
)

// Attempt is one time that a target was given the pod.
type Attempt struct {
	// Target is its name, as in Target.Name.
	Target string `json:"target"`
	// Trial is empty if the pod was thought to fit there.
	Trial string `json:"trial,omitempty"`
	// Started is zero if the attempt began under an earlier leader.
	Started metav1.MicroTime `json:"started,omitzero"`
	// Ended is zero while the attempt lasts.
	Ended   metav1.MicroTime `json:"ended,omitzero"`
	Outcome Outcome          `json:"outcome"`
	// Reason is what the target answered, so far.
	Reason string `json:"reason,omitempty"`
}

// Outcome is the result of an Attempt. It is also a metric label: the values never change.
type Outcome string

const (
	// Waiting means that the target has not decided yet.
	Waiting Outcome = "Waiting"
	// Bound means that the target scheduled the delegate and the pod is bound to its virtual node.
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

// Words says the same in a sentence about the target.
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
