package scheduling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// decision is what to do about a proxy whose delegate has been asked for.
type decision int

const (
	// wait for the target to say more.
	wait decision = iota
	// hold on: the target has its own reason to hold the delegate back, and goes on by itself.
	hold
	// unfit is the word of the target's scheduler that the delegate fits nowhere now.
	unfit
	// refuse the target: withdraw the PodChaperon, and let another target be tried.
	refuse
	// bind the proxy to the target's virtual node.
	bind
	// lost is a PodChaperon that somebody else deleted.
	lost
)

// decide what the PodChaperon, as last seen, says, and why. A delegate that has finished is bound even if it is gone.
func decide(chaperon *v1alpha1.PodChaperon) (decision, string) {
	status := &chaperon.Status
	if !chaperon.DeletionTimestamp.IsZero() {
		return lost, "the PodChaperon is being deleted"
	}
	if finished(chaperon) {
		return bind, ""
	}
	if c := condition(status, v1alpha1.ConditionDelegate); c != nil && c.Status == corev1.ConditionFalse {
		return refuse, delegateReason(c)
	}
	c := condition(status, corev1.PodScheduled)
	switch {
	case isScheduled(chaperon):
		return bind, ""
	case c == nil:
		return wait, ""
	case c.Reason == corev1.PodReasonSchedulingGated:
		return hold, "held back by scheduling gates"
	case c.Reason == corev1.PodReasonUnschedulable && status.NominatedNodeName != "":
		return hold, "preempting other pods"
	case c.Reason == corev1.PodReasonUnschedulable:
		return unfit, "unschedulable: " + strings.TrimSuffix(c.Message, ".")
	default:
		return wait, ""
	}
}

func finished(chaperon *v1alpha1.PodChaperon) bool {
	return chaperon.Status.Phase == corev1.PodSucceeded || chaperon.Status.Phase == corev1.PodFailed
}

// isScheduled says whether the delegate has a node.
func isScheduled(chaperon *v1alpha1.PodChaperon) bool {
	status := &chaperon.Status
	c := condition(status, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionTrue || status.Phase != "" && status.Phase != corev1.PodPending
}

// patience is for how long a target is given the pod.
type patience struct {
	// placement is for a target that says nothing, queueing for one that holds the delegate back.
	placement, queueing time.Duration
	// growth is for a target that says that the delegate fits nowhere, but is expected to add a node: zero if it is
	// not.
	growth time.Duration
}

// defaults of v1alpha1.PlacementPolicy.
const (
	defaultQueueing = 10 * time.Minute
	defaultGrowth   = 10 * time.Minute
)

// newPatience follows the target's policy.
func newPatience(policy *v1alpha1.PlacementPolicy, placement time.Duration, k kind) patience {
	or := func(set *metav1.Duration, otherwise time.Duration) time.Duration {
		if set != nil && set.Duration > 0 {
			return set.Duration
		}
		return otherwise
	}
	p := patience{
		placement: or(policy.PlacementTimeout, placement),
		queueing:  or(policy.QueueingTimeout, defaultQueueing),
	}
	if k == grow && policy.ScaleUp != nil {
		p.growth = or(policy.ScaleUp.Timeout, defaultGrowth)
	}
	return p
}

// with a decision, how long the target has from the beginning; zero means that it has no time left.
func (p patience) with(v decision) time.Duration {
	switch v {
	case unfit:
		return p.growth
	case hold:
		return max(p.queueing, p.placement)
	default:
		return p.placement
	}
}

// overdue says why a target that has not decided in time is given up.
func overdue(chaperon *v1alpha1.PodChaperon, timeout time.Duration) string {
	reason := fmt.Sprintf("not scheduled within %s", duration.HumanDuration(timeout))
	if c := condition(&chaperon.Status, corev1.PodScheduled); c != nil && c.Reason != "" {
		return fmt.Sprintf("%s (%s: %s)", reason, c.Reason, c.Message)
	}
	if len(chaperon.Status.Conditions) == 0 {
		return reason + ": the target has not created the delegate"
	}
	return reason
}

// refusal is the target's, given what is seen of the PodChaperon after so much time; nil, and how much time is left,
// while there is none.
func (p patience) refusal(t *target, seen *v1alpha1.PodChaperon, elapsed time.Duration) (*refusedError, time.Duration) {
	decision, reason := decide(seen)
	left := p.with(decision) - elapsed
	switch {
	case decision == lost:
		return nil, 0
	case decision == refuse:
		return &refusedError{target: t.name(), reason: reason, kind: forbidden}, 0
	case left > 0:
		return nil, left
	case decision == unfit && p.growth == 0:
		return &refusedError{target: t.name(), reason: reason, kind: unschedulable}, 0
	case decision == unfit:
		reason = fmt.Sprintf("no node was added within %s (%s)", duration.HumanDuration(p.growth), reason)
		return &refusedError{target: t.name(), reason: reason, kind: late}, 0
	default:
		return &refusedError{target: t.name(), reason: overdue(seen, p.with(decision)), kind: late}, 0
	}
}

func delegateReason(c *corev1.PodCondition) string {
	switch c.Reason {
	case v1alpha1.ReasonDelegateRefused:
		return "refused: " + c.Message
	case v1alpha1.ReasonDelegateTerminating, v1alpha1.ReasonDelegateGone:
		return "the delegate was deleted there"
	default:
		return "no delegate: " + c.Message
	}
}

// childless says whether the PodChaperon, as last seen, has no delegate: the target refused to make it, or it is gone.
func childless(chaperon *v1alpha1.PodChaperon) bool {
	c := condition(&chaperon.Status, v1alpha1.ConditionDelegate)
	return c != nil && c.Status == corev1.ConditionFalse &&
		(c.Reason == v1alpha1.ReasonDelegateRefused || c.Reason == v1alpha1.ReasonDelegateGone)
}

func condition(status *corev1.PodStatus, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}
