package chaperon

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// remakeAfter is how long a source has to react to a lost delegate before the delegate is created again.
	remakeAfter = 2 * time.Minute
	// maxMessage bounds the bytes of a message. Admission webhooks decide how long it is, and the source stores it,
	// too.
	maxMessage = 1024
)

const (
	messageTerminating = "the delegate pod is being deleted in the target cluster"
	messageGone        = "the delegate pod was deleted in the target cluster"
	messageNotOurs     = "a pod of this name exists in the target cluster and is not the PodChaperon's: delete or " +
		"rename it"
	messageUnreadable = "the target's manager cannot read the PodChaperon, so that there is no delegate: delete the " +
		"PodChaperon ("
)

// decision says what a PodChaperon needs. The zero decision is to do nothing.
type decision struct {
	create         bool
	deleteDelegate bool
	grace          *int64 // of the delegate, in seconds; nil is its own
	asSeen         bool   // What is deleted must not have changed.
	// afterStatus requires that the status was written before the delegate is deleted.
	afterStatus    bool
	changeDelegate bool // as the PodChaperon says
	deleteChaperon bool
	status         *corev1.PodStatus // the PodChaperon's new status
	wait           time.Duration     // until it is time to decide again
}

// decide decides on a PodChaperon, given the pod of its name, or nil if there is none, and whether the source has been
// silent for too long.
func decide(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, silent bool, now time.Time) decision {
	ours := pod != nil && metav1.IsControlledBy(pod, chaperon)
	if d, asked := decideAsked(chaperon, pod, ours, silent); asked {
		return d
	}
	switch {
	case fenced(chaperon) || silent && mayBeFenced(chaperon, pod, ours):
		return decideFenced(chaperon, pod, ours, now)
	case ours:
		return decision{
			status:         delegateStatus(chaperon, pod, now),
			changeDelegate: mustChange(chaperon, pod),
			deleteDelegate: pod.DeletionTimestamp == nil && heldByFinalizer(chaperon),
		}
	case chaperon.DeletionTimestamp != nil, leftover(pod):
		return decision{}
	case pod != nil:
		return decideRefused(chaperon, messageNotOurs, now)
	case chaperon.Unreadable != "":
		return decideRefused(chaperon, messageUnreadable+chaperon.Unreadable+")", now)
	default:
		return decideMissing(chaperon, now)
	}
}

// decideAsked decides on the end that the source asked for, if it did.
func decideAsked(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, ours, silent bool) (d decision, asked bool) {
	grace, asked := translate.EndAsked(chaperon)
	switch {
	case !asked && (!translate.Withdrawn(chaperon) || ours && hasNode(pod)):
		return decision{}, false
	case !asked:
		d = decideDeletion(chaperon, pod, ours, nil)
		d.asSeen = true
		return d, true
	case pod == nil:
	case silent:
		grace = atMost(grace, pod, &chaperon.Spec)
	case grace == nil: // The delegate's own also shortens a longer one, which somebody asked for before.
		grace = atMost(nil, pod, &pod.Spec)
	}
	return decideDeletion(chaperon, pod, ours, grace), true
}

// hasNode says whether the delegate runs, or will, or has finished.
func hasNode(delegate *corev1.Pod) bool {
	return delegate.Spec.NodeName != "" || translate.Scheduled(&delegate.Status)
}

// decideDeletion deletes first the delegate and then the PodChaperon, because the source requested this by annotation.
func decideDeletion(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, ours bool, grace *int64) decision {
	if !ours {
		return decision{deleteChaperon: chaperon.DeletionTimestamp == nil}
	}
	d := decision{status: withAnnotations(pod, ifWorthWriting(chaperon, pod.Status.DeepCopy()))}
	if pod.DeletionTimestamp == nil ||
		grace != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds > *grace {
		d.deleteDelegate, d.grace = true, grace
	}
	return d
}

// decideMissing decides on a PodChaperon that has no delegate and is not to be deleted.
func decideMissing(chaperon *v1alpha1.PodChaperon, now time.Time) decision {
	lost := lostCondition(&chaperon.Status)
	switch {
	case lost == nil && !delegateSeen(&chaperon.Status):
		return decision{create: true}
	case lost == nil && translate.Finished(chaperon.Status.Phase),
		lost != nil && lost.Reason == v1alpha1.ReasonDelegateRefused:
		return decision{}
	case lost == nil, lost.Reason != v1alpha1.ReasonDelegateGone:
		return decision{status: withCondition(&chaperon.Status, v1alpha1.ReasonDelegateGone, messageGone, now)}
	case !restartsAlways(chaperon):
		return decision{}
	}
	if wait := lost.LastTransitionTime.Add(remakeAfter).Sub(now); wait > 0 {
		return decision{wait: wait}
	}
	return decision{create: true}
}

// decideRefused decides on a PodChaperon whose delegate cannot be created. If an earlier delegate was lost, the status
// goes on saying so, because the source has to know that the pod has run. Then the creation is tried again later,
// because no source reacted to the loss.
func decideRefused(chaperon *v1alpha1.PodChaperon, message string, now time.Time) decision {
	if lostCondition(&chaperon.Status) != nil || delegateSeen(&chaperon.Status) {
		d := decideMissing(chaperon, now)
		if d.create {
			return decision{wait: remakeAfter}
		}
		return d
	}
	pending := &corev1.PodStatus{Phase: corev1.PodPending}
	return decision{status: withCondition(pending, v1alpha1.ReasonDelegateRefused, message, now)}
}

// delegateStatus returns the delegate's status, with the condition Delegate=False/Terminating if somebody deletes the
// delegate. A delegate that finished before its deletion is not lost, but one that ends because of its deletion is.
func delegateStatus(chaperon *v1alpha1.PodChaperon, delegate *corev1.Pod, now time.Time) *corev1.PodStatus {
	status := delegate.Status.DeepCopy()
	showChanges(chaperon, delegate, status, now)
	lost := lostCondition(&chaperon.Status)
	if delegate.DeletionTimestamp == nil || chaperon.DeletionTimestamp != nil ||
		lost == nil && translate.Finished(chaperon.Status.Phase) {
		return withAnnotations(delegate, ifWorthWriting(chaperon, status))
	}
	if lost != nil && lost.Reason == v1alpha1.ReasonDelegateTerminating {
		now = lost.LastTransitionTime.Time
	}
	status = withCondition(status, v1alpha1.ReasonDelegateTerminating, messageTerminating, now)
	return withAnnotations(delegate, status)
}

// withAnnotations adds the condition that shows the annotations of the delegate which the source wants, to the status
// that is to be written, or nil.
func withAnnotations(delegate *corev1.Pod, status *corev1.PodStatus) *corev1.PodStatus {
	if status == nil {
		return nil
	}
	if added := podcache.AddedAnnotations(delegate); added != "" {
		status.Conditions = append(status.Conditions, translate.AnnotationsCondition(added))
	}
	return status
}

// ifWorthWriting returns the status, or nil if it says only that the delegate exists, which is not worth a write.
func ifWorthWriting(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) *corev1.PodStatus {
	if status.Phase == corev1.PodPending && len(status.Conditions) == 0 && chaperon.Status.Phase == "" {
		return nil
	}
	return status
}

// heldByFinalizer says whether the PodChaperon is deleted and stays because of a finalizer, so that nobody else deletes
// the delegate. Kubernetes' garbage collector removes its own finalizers when it has done what was asked for.
func heldByFinalizer(chaperon *v1alpha1.PodChaperon) bool {
	return chaperon.DeletionTimestamp != nil &&
		!slices.Contains(chaperon.Finalizers, metav1.FinalizerDeleteDependents) &&
		!slices.Contains(chaperon.Finalizers, metav1.FinalizerOrphanDependents)
}

// leftover says whether the pod is the delegate of a deleted PodChaperon of the same name. The pod's deletion causes
// the next reconciliation.
func leftover(pod *corev1.Pod) bool { return pod != nil && namesChaperon(pod) }

// namesChaperon says whether a pod's controller is a PodChaperon of the pod's own name, or was one. Everybody who may
// create pods can write this, about a PodChaperon that never existed, too.
func namesChaperon(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == chaperonKind && owner.Name == pod.Name &&
		strings.HasPrefix(owner.APIVersion, v1alpha1.GroupName+"/")
}

// delegateSeen says whether the status comes from a delegate that a scheduler or a kubelet has processed.
func delegateSeen(status *corev1.PodStatus) bool {
	return status.Phase != "" && status.Phase != corev1.PodPending || status.StartTime != nil ||
		translate.PodCondition(status.Conditions, corev1.PodScheduled) != nil
}

func restartsAlways(chaperon *v1alpha1.PodChaperon) bool {
	return chaperon.Spec.RestartPolicy == "" || chaperon.Spec.RestartPolicy == corev1.RestartPolicyAlways
}

func lostCondition(status *corev1.PodStatus) *corev1.PodCondition {
	return translate.PodCondition(status.Conditions, v1alpha1.ConditionDelegate)
}

// withCondition returns a copy of the status with the condition Delegate=False and the reason.
func withCondition(status *corev1.PodStatus, reason, message string, since time.Time) *corev1.PodStatus {
	changed := status.DeepCopy()
	changed.Conditions = slices.DeleteFunc(changed.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionDelegate
	})
	changed.Conditions = append(changed.Conditions, corev1.PodCondition{
		Type:               v1alpha1.ConditionDelegate,
		Status:             corev1.ConditionFalse,
		Reason:             reason,
		Message:            truncate(message),
		LastTransitionTime: metav1.NewTime(since).Rfc3339Copy(),
	})
	return changed
}

func truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
}
