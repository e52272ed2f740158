package scheduling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// verdict is what to do about a proxy whose delegate has been asked for.
type verdict int

const (
	// wait for the target to say more.
	wait verdict = iota
	// bind the proxy to the target's virtual node.
	bind
	// refuse the target: withdraw the PodChaperon, and let another target be tried.
	refuse
	// lost is a PodChaperon that somebody else deleted.
	lost
)

// decide what the PodChaperon, as last seen, says, and why. A delegate that has finished is bound even if it is gone.
func decide(chaperon *v1alpha1.PodChaperon) (verdict, string) {
	status := &chaperon.Status
	if !chaperon.DeletionTimestamp.IsZero() {
		return lost, "the PodChaperon is being deleted"
	}
	if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
		return bind, ""
	}
	if c := condition(status, v1alpha1.ConditionDelegate); c != nil && c.Status == corev1.ConditionFalse {
		return refuse, delegateReason(c)
	}
	scheduled := condition(status, corev1.PodScheduled)
	if scheduled != nil && scheduled.Status == corev1.ConditionTrue || status.Phase != "" && status.Phase != corev1.PodPending {
		return bind, ""
	}
	if scheduled != nil && scheduled.Reason == corev1.PodReasonUnschedulable && status.NominatedNodeName == "" {
		return refuse, "unschedulable: " + strings.TrimSuffix(scheduled.Message, ".")
	}
	return wait, ""
}

// overdue says why a target that has not decided in time is given up.
func overdue(chaperon *v1alpha1.PodChaperon, timeout time.Duration) string {
	reason := fmt.Sprintf("not scheduled within %s", timeout)
	if c := condition(&chaperon.Status, corev1.PodScheduled); c != nil && c.Reason != "" {
		return fmt.Sprintf("%s (%s: %s)", reason, c.Reason, c.Message)
	}
	if len(chaperon.Status.Conditions) == 0 {
		return reason + ": the target has not created the delegate"
	}
	return reason
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
