package placement

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
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

// decide returns what to do about a PodChaperon as it was last seen, and why. A delegate that has finished is bound
// even if it is gone.
func decide(chaperon *v1alpha1.PodChaperon) (decision, string) {
	status := &chaperon.Status
	if !chaperon.DeletionTimestamp.IsZero() {
		return lost, "the PodChaperon is being deleted"
	}
	if Finished(chaperon) {
		return bind, ""
	}
	delegate := translate.PodCondition(status.Conditions, v1alpha1.ConditionDelegate)
	if delegate != nil && delegate.Status == corev1.ConditionFalse {
		return refuse, delegateReason(delegate)
	}
	c := translate.PodCondition(status.Conditions, corev1.PodScheduled)
	switch {
	case Scheduled(chaperon):
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

// Finished says whether all containers of the delegate have ended for good.
func Finished(chaperon *v1alpha1.PodChaperon) bool {
	return translate.Finished(chaperon.Status.Phase)
}

// Scheduled says whether the delegate has a node.
func Scheduled(chaperon *v1alpha1.PodChaperon) bool {
	status := &chaperon.Status
	c := translate.PodCondition(status.Conditions, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionTrue || status.Phase != "" && status.Phase != corev1.PodPending
}

// patience is how long a target has to schedule the delegate.
type patience struct {
	// placement is the time of a target that says nothing, queueing that of one that holds the delegate back.
	placement, queueing time.Duration
	// growth is the time of a target without room that is expected to add a node. It is zero if none is expected.
	growth time.Duration
}

// The defaults of v1alpha1.PlacementPolicy.
const (
	defaultQueueing = 10 * time.Minute
	defaultGrowth   = 10 * time.Minute
)

// newPatience returns the times that the target's policy gives. The time for placement is the default one.
func newPatience(policy *v1alpha1.PlacementPolicy, placement time.Duration, grows bool) patience {
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
	if grows && policy.ScaleUp != nil {
		p.growth = or(policy.ScaleUp.Timeout, defaultGrowth)
	}
	return p
}

// limit returns how long a target has from the beginning in the state that a decision was made for. Zero means that it
// has no time at all.
func (p patience) limit(state decision) time.Duration {
	switch state {
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
	if c := translate.PodCondition(chaperon.Status.Conditions, corev1.PodScheduled); c != nil && c.Reason != "" {
		return fmt.Sprintf("%s (%s: %s)", reason, c.Reason, c.Message)
	}
	if len(chaperon.Status.Conditions) == 0 {
		return reason + ": the target has not created the delegate"
	}
	return reason
}

// refusal returns the target's refusal, given the PodChaperon as it was seen after so much time. Without a refusal it
// returns nil and how much time is left.
func (p patience) refusal(t *Target, seen *v1alpha1.PodChaperon, elapsed time.Duration) (*RefusedError, time.Duration) {
	refused := func(refusal Refusal, reason string) (*RefusedError, time.Duration) {
		return &RefusedError{Target: t.Name(), Reason: reason, Refusal: refusal}, 0
	}
	decision, reason := decide(seen)
	left := p.limit(decision) - elapsed
	switch {
	case decision == lost:
		return nil, 0
	case decision == refuse:
		return refused(Forbidden, reason)
	case left > 0:
		return nil, left
	case decision == unfit && p.growth == 0:
		return refused(Unschedulable, reason)
	case decision == unfit:
		return refused(Late, fmt.Sprintf("no node was added within %s (%s)", duration.HumanDuration(p.growth), reason))
	default:
		return refused(Late, overdue(seen, p.limit(decision)))
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
	c := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
	return c != nil && c.Status == corev1.ConditionFalse &&
		(c.Reason == v1alpha1.ReasonDelegateRefused || c.Reason == v1alpha1.ReasonDelegateGone)
}
