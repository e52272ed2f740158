package explain

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

// Outcome is what became of an Attempt.
type Outcome string

const (
	// Waiting means that the target has not answered yet.
	Waiting Outcome = "Waiting"
	// Bound means that the pod went there.
	Bound Outcome = "Bound"
	// Refused means that the target cannot take the pod.
	Refused Outcome = "Refused"
	// TimedOut means that the target did not answer in time.
	TimedOut Outcome = "TimedOut"
	// Lost means that the target could not be asked to the end: it was disconnected or deleted, or there were errors.
	Lost Outcome = "Lost"
)

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
