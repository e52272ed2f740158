package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// answer is what a PodChaperon, as it was last seen, says about its delegate.
type answer int

const (
	// waiting means that the target has not said anything final.
	waiting answer = iota
	// held means that the target has its own reason to hold the delegate back, and goes on by itself.
	held
	// unfit means that the target's scheduler finds no node for the delegate now.
	unfit
	// refused means that the target does not run the delegate.
	refused
	// scheduled means that the delegate has a node, or has finished.
	scheduled
	// gone means that the PodChaperon is being deleted, or that somebody asked the target's manager to do so.
	gone
)

// read returns the answer of a PodChaperon as it was last seen, and its reason. A delegate that has finished counts as
// scheduled even if it is gone.
func read(chaperon *v1alpha1.PodChaperon) (answer, string) {
	status := &chaperon.Status
	if ending.Begun(chaperon) {
		return gone, "the PodChaperon is being deleted"
	}
	if Finished(chaperon) {
		return scheduled, ""
	}
	delegate := translate.PodCondition(status.Conditions, v1alpha1.ConditionDelegate)
	if delegate != nil && delegate.Status == corev1.ConditionFalse {
		return refused, delegateReason(delegate)
	}
	c := translate.PodCondition(status.Conditions, corev1.PodScheduled)
	switch {
	case Scheduled(chaperon):
		return scheduled, ""
	case c == nil:
		return waiting, ""
	case c.Reason == corev1.PodReasonSchedulingGated:
		return held, "held back by scheduling gates"
	case c.Reason == corev1.PodReasonUnschedulable && status.NominatedNodeName != "":
		return held, "preempting other pods"
	case c.Reason == corev1.PodReasonUnschedulable && waitsForClaims(c.Message):
		return waiting, ""
	case c.Reason == corev1.PodReasonUnschedulable:
		return unfit, "unschedulable: " + strings.TrimSuffix(c.Message, ".")
	default:
		return waiting, ""
	}
}

// waitsForClaims says whether the message is that of a kube-scheduler that waits for another controller of its
// cluster, and not for room. The claim of a generic ephemeral volume does not exist yet: kube-controller-manager makes
// it when it sees the delegate. Or a claim is not bound yet, whose volume is made at once. No other target would be
// faster.
func waitsForClaims(message string) bool {
	return strings.Contains(message, "waiting for ephemeral volume controller to create the persistentvolumeclaim") ||
		strings.Contains(message, "pod has unbound immediate PersistentVolumeClaims")
}

// Finished says whether all containers of the delegate have ended for good.
func Finished(chaperon *v1alpha1.PodChaperon) bool {
	return translate.Finished(chaperon.Status.Phase)
}

// Scheduled says whether the delegate has a node.
func Scheduled(chaperon *v1alpha1.PodChaperon) bool {
	return translate.Scheduled(&chaperon.Status)
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

// limit returns how long a target has from the beginning as long as this is its answer. Zero means that it has no time
// at all.
func (p patience) limit(now answer) time.Duration {
	switch now {
	case unfit:
		return p.growth
	case held:
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
	warnings, others := translate.Warnings(chaperon.Status.Conditions)
	if len(others) > 0 {
		return reason
	}
	if failed := translate.PodCondition(warnings, v1alpha1.WarningPrefix+translate.WarningFailedCreate); failed != nil {
		return fmt.Sprintf("%s: the target has not created the delegate (%s)", reason, failed.Message)
	}
	if len(warnings) > 0 {
		last := slices.MaxFunc(warnings, func(a, b corev1.PodCondition) int {
			return a.LastTransitionTime.Compare(b.LastTransitionTime.Time)
		})
		return fmt.Sprintf("%s: no scheduler there has looked at the delegate (%s: %s)",
			reason, last.Reason, last.Message)
	}
	return reason + ": the target has not created the delegate, or no scheduler there has looked at it"
}

// refusal returns the target's refusal, given the PodChaperon as it was seen after so much time. Without a refusal it
// returns nil and how much time is left.
func (p patience) refusal(t *Target, seen *v1alpha1.PodChaperon, elapsed time.Duration) (*RefusedError, time.Duration) {
	because := func(refusal Refusal, reason string) (*RefusedError, time.Duration) {
		return &RefusedError{Target: t.Name(), Reason: reason, Refusal: refusal}, 0
	}
	now, reason := read(seen)
	left := p.limit(now) - elapsed
	switch {
	case now == gone:
		return nil, 0
	case now == refused:
		return because(Forbidden, reason)
	case left > 0:
		return nil, left
	case now == unfit && p.growth == 0:
		return because(Unschedulable, reason)
	case now == unfit:
		return because(Late, fmt.Sprintf("no node was added within %s (%s)", duration.HumanDuration(p.growth), reason))
	default:
		return because(Late, overdue(seen, p.limit(now)))
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
	return refusedThere(chaperon) || lacks(chaperon, v1alpha1.ReasonDelegateGone)
}

// refusedThere says whether the target's manager refused to make the delegate. It does not try again. A delegate that
// is gone may be made again.
func refusedThere(chaperon *v1alpha1.PodChaperon) bool {
	return lacks(chaperon, v1alpha1.ReasonDelegateRefused)
}

func lacks(chaperon *v1alpha1.PodChaperon, reason string) bool {
	c := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == reason
}
