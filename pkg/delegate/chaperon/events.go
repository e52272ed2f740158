package chaperon

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Reasons and actions of events on PodChaperons. An undisturbed delegate has none.
const (
	reasonRefused = "DelegateRefused"
	reasonLost    = "DelegateLost"
	reasonRemade  = "DelegateRemade"

	actionCreate = "CreateDelegate"
	actionFollow = "FollowDelegate"
)

// recordCreated records that a delegate was created, with an event if it replaces a lost one.
func (r *Reconciler) recordCreated(chaperon *v1alpha1.PodChaperon) {
	if lostCondition(&chaperon.Status) == nil {
		r.metrics.delegates.WithLabelValues(resultCreated).Inc()
		return
	}
	r.metrics.delegates.WithLabelValues(resultRemade).Inc()
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeNormal, reasonRemade, actionCreate,
		"made the delegate pod again: it was deleted and no source cluster reacted within %s", remakeAfter)
}

// recordRefused records that the delegate cannot be created.
func (r *Reconciler) recordRefused(chaperon *v1alpha1.PodChaperon, message string) {
	r.metrics.delegates.WithLabelValues(resultRefused).Inc()
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonRefused, actionCreate, "%s", truncate(message))
}

// recordLost records that the written status is the first one to say that the delegate was lost or refused.
func (r *Reconciler) recordLost(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) {
	lost, before := lostCondition(status), lostCondition(&chaperon.Status)
	if lost == nil || before != nil {
		return
	}
	if lost.Reason == v1alpha1.ReasonDelegateRefused {
		r.recordRefused(chaperon, lost.Message)
		return
	}
	r.metrics.delegates.WithLabelValues(resultLost).Inc()
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonLost, actionFollow, "%s", lost.Message)
}
