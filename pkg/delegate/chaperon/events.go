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
	reasonFenced  = "DelegateFenced"
	// reasonChangeRefused means that a change of the PodChaperon does not reach the delegate.
	reasonChangeRefused = "ChangeRefused"
	// reasonFieldsDropped means that the delegate lacks fields of its PodChaperon.
	reasonFieldsDropped = "FieldsDropped"
	// reasonUnfenced means that fencing was asked for, and that nobody can hear of the source.
	reasonUnfenced = "DelegateNotFenced"

	actionCreate = "CreateDelegate"
	actionFollow = "FollowDelegate"
	actionFence  = "FenceDelegate"
	actionChange = "ChangeDelegate"
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
	if lost != nil && lost.Reason == v1alpha1.ReasonDelegateFenced && (before == nil || before.Reason != lost.Reason) {
		r.metrics.delegates.WithLabelValues(resultFenced).Inc()
		r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonFenced, actionFence, "%s", lost.Message)
		return
	}
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

// recordUnfenced records that a delegate was created that is to be fenced, and cannot be.
func (r *Reconciler) recordUnfenced(chaperon *v1alpha1.PodChaperon) {
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonUnfenced, actionFence,
		"the delegate pod is never fenced, although the annotation %s asks for this: this cluster has no Lease of the "+
			"source with the cluster ID %q, so nobody can tell whether the source is silent",
		v1alpha1.AnnotationFenceAfter, truncate(chaperon.Labels[v1alpha1.LabelParentClusterID]))
}

// recordChangeRefused records that a change does not reach the delegate.
func (r *Reconciler) recordChangeRefused(chaperon *v1alpha1.PodChaperon, message string) {
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonChangeRefused, actionChange,
		"%s", truncate(message))
}

// recordFieldsDropped records that the delegate lacks fields.
func (r *Reconciler) recordFieldsDropped(chaperon *v1alpha1.PodChaperon, message string) {
	r.recorder.Eventf(chaperon, nil, corev1.EventTypeWarning, reasonFieldsDropped, actionCreate, "%s", message)
}
