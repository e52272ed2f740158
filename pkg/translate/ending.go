package translate

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// EndAsked says whether a source asked the target's manager to end the delegate of a PodChaperon, and the grace period
// in seconds, or nil for the delegate's own. An invalid value, which somebody wrote by hand, asks for nothing: a grace
// period that nobody understands might be a longer one. So the source asks again, and everybody agrees.
func EndAsked(chaperon *v1alpha1.PodChaperon) (grace *int64, asked bool) {
	value, ok := chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
	if value == "" {
		return nil, ok
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if err != nil || seconds < 0 {
		return nil, false
	}
	return &seconds, true
}

// Withdrawn says whether a source asked the target's manager to end the delegate of a PodChaperon if it has no node. It
// means nothing once the status shows the node, and again something when the status shows that such a delegate is lost.
func Withdrawn(chaperon *v1alpha1.PodChaperon) bool {
	lost := PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
	_, withdrawn := chaperon.Annotations[v1alpha1.AnnotationWithdrawn]
	return withdrawn && (!Scheduled(&chaperon.Status) || lost != nil && lost.Status == corev1.ConditionFalse)
}

// RenewedAt returns the value of v1alpha1.AnnotationSpares on a Lease that was renewed at a time. API servers keep
// its microseconds.
func RenewedAt(renewed metav1.MicroTime) string {
	return renewed.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

// ToEnd says whether a source asked the target's manager for the end of a delegate, in one way or the other.
func ToEnd(chaperon *v1alpha1.PodChaperon) bool {
	_, asked := EndAsked(chaperon)
	return asked || Withdrawn(chaperon)
}

// Scheduled says whether the status is that of a pod that has a node, or had one.
func Scheduled(status *corev1.PodStatus) bool {
	c := PodCondition(status.Conditions, corev1.PodScheduled)
	return c != nil && c.Status == corev1.ConditionTrue || status.Phase != "" && status.Phase != corev1.PodPending
}

// DeletedWhenBound says whether a bound pod that is deleted, or gone, may have been deleted in the moment when it was
// bound: see timeouts.BindingRace. Then nobody need have used force, although its grace period is 0. The times are both
// of the pod's API server. A pod that runs, or whose end shows that it ran, was bound long enough before.
func DeletedWhenBound(pod *corev1.Pod) bool {
	scheduled := PodCondition(pod.Status.Conditions, corev1.PodScheduled)
	if pod.Status.Phase != corev1.PodPending || scheduled == nil || scheduled.Status != corev1.ConditionTrue {
		return false
	}
	return pod.DeletionTimestamp == nil || // Its last state is not known.
		pod.DeletionTimestamp.Sub(scheduled.LastTransitionTime.Time) < timeouts.BindingRace
}
