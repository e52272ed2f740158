package chaperon

import (
	"context"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const messageFenced = "the delegate pod was stopped in the target cluster, which had not heard of its source for %s, " +
	"as the annotation " + v1alpha1.AnnotationFenceAfter + " asks for"

// Silence says for how long the source of a PodChaperon has surely been silent, and false if nobody can hear of it.
type Silence func(ctx context.Context, chaperon *v1alpha1.PodChaperon) (time.Duration, bool, error)

// FenceBy makes the Reconciler fence the delegates of silent sources. Without it, no delegate is fenced. Call it before
// Register.
func (r *Reconciler) FenceBy(silence Silence) { r.silence = silence }

// Wake reconciles a PodChaperon soon.
func (r *Reconciler) Wake(chaperon types.NamespacedName) { r.wake.Wake(chaperon) }

// ToBeFenced says whether the delegate of a PodChaperon is to be stopped because its source has been silent for some
// time, and nothing shows yet that it is.
func ToBeFenced(chaperon *v1alpha1.PodChaperon, silent time.Duration) bool {
	fence := fenceOf(chaperon)
	return fence > 0 && silent >= fence && !fenced(chaperon) && !translate.Finished(chaperon.Status.Phase)
}

// fenceOf returns after which silence of the source the delegate is fenced, and 0 for never. It ignores an invalid
// value.
func fenceOf(chaperon *v1alpha1.PodChaperon) time.Duration {
	fence, err := translate.Fence(chaperon.Annotations[v1alpha1.AnnotationFenceAfter])
	if err != nil {
		return 0
	}
	return fence
}

// silent says whether the source of a PodChaperon has been silent for longer than the delegate may run then.
func (r *Reconciler) silent(ctx context.Context, chaperon *v1alpha1.PodChaperon) (bool, error) {
	fence := fenceOf(chaperon)
	if fence == 0 || r.silence == nil {
		return false, nil
	}
	silent, _, err := r.silence(ctx, chaperon)
	if err != nil {
		return false, fmt.Errorf("looking whether the source is silent: %w", err)
	}
	return silent >= fence, nil
}

// warnUnfenced warns of a delegate that is to be fenced, and cannot be, because nobody can hear of its source.
func (r *Reconciler) warnUnfenced(ctx context.Context, chaperon *v1alpha1.PodChaperon) {
	if fenceOf(chaperon) == 0 {
		return
	}
	known := false
	if r.silence != nil {
		var err error
		if _, known, err = r.silence(ctx, chaperon); err != nil {
			return // It is unknown.
		}
	}
	if !known {
		r.recordUnfenced(chaperon)
	}
}

// fenced says whether the delegate was fenced. This lasts until the PodChaperon goes, also when the source is heard of
// again: the source may have replaced the pod.
func fenced(chaperon *v1alpha1.PodChaperon) bool {
	lost := lostCondition(&chaperon.Status)
	return lost != nil && lost.Reason == v1alpha1.ReasonDelegateFenced
}

// mayBeFenced says whether there is a delegate to fence, or one could be created. A delegate that has finished, and one
// that was refused, never runs again. The delegate of a deleted PodChaperon ends anyway.
func mayBeFenced(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, ours bool) bool {
	if chaperon.DeletionTimestamp != nil {
		return false
	}
	if ours {
		return !translate.Finished(pod.Status.Phase)
	}
	lost := lostCondition(&chaperon.Status)
	return chaperon.Unreadable == "" && pod == nil &&
		(lost != nil || !translate.Finished(chaperon.Status.Phase)) &&
		(lost == nil || lost.Reason != v1alpha1.ReasonDelegateRefused)
}

// decideFenced stops the delegate, or does not create it. The condition is written first, so that nobody ever makes the
// delegate again.
func decideFenced(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, ours bool, now time.Time) decision {
	status, message := &chaperon.Status, fmt.Sprintf(messageFenced, fenceOf(chaperon))
	if lost := lostCondition(status); fenced(chaperon) {
		now, message = lost.LastTransitionTime.Time, lost.Message
	}
	if !ours {
		if status.Phase == "" {
			status = &corev1.PodStatus{Phase: corev1.PodPending}
		}
		return decision{status: fencedStatus(status, message, now)}
	}
	d := decision{status: withAnnotations(pod, fencedStatus(&pod.Status, message, now))}
	grace := atMost(nil, pod, &chaperon.Spec) // The source counts on the PodChaperon's. A webhook may have changed it.
	if pod.DeletionTimestamp == nil || grace != nil {
		d.deleteDelegate, d.grace, d.afterStatus = true, grace, true
	}
	return d
}

// fencedStatus returns the status of a fenced delegate. The proxy shows the reason and the message if it stays, because
// its containers have ended.
func fencedStatus(status *corev1.PodStatus, message string, since time.Time) *corev1.PodStatus {
	changed := withCondition(status, v1alpha1.ReasonDelegateFenced, message, since)
	changed.Reason, changed.Message = v1alpha1.ReasonDelegateFenced, message
	return changed
}

// atMost returns the grace period with which to delete a delegate, given the one that is asked for, or nil for the
// delegate's own. It is at most that of a spec, also if the deletion was requested with a longer one before.
func atMost(grace *int64, pod *corev1.Pod, spec *corev1.PodSpec) *int64 {
	seconds := func(spec *corev1.PodSpec) int64 { return int64(translate.GracePeriod(spec) / time.Second) }
	takes, most := ptr.Deref(grace, seconds(&pod.Spec)), seconds(spec)
	if pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil {
		takes = min(*pod.DeletionGracePeriodSeconds, ptr.Deref(grace, math.MaxInt64))
	}
	if takes > most {
		return &most
	}
	return grace
}
