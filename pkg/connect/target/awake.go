package target

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// awakeCondition returns the condition Awake of a target whose manager is in a state, and its Lease in a namespace. It
// is empty if there is none.
func awakeCondition(o *awake.Observer, namespace string) metav1.Condition {
	switch o.State() {
	case awake.Awake:
		return metav1.Condition{
			Type: v1alpha1.ConditionAwake, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAwake,
			Message: "the target's manager renews its Lease",
		}
	case awake.Silent:
		return metav1.Condition{
			Type: v1alpha1.ConditionAwake, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSilent,
			Message: fmt.Sprintf("the target's manager has not renewed its Lease since %s. Its pods show the status "+
				"last seen, and no new pods go there. It also fences nothing meanwhile. Does multicluster-scheduler "+
				"run in the target? If it was rolled back to a version without this Lease, delete it there: "+
				"kubectl -n %s delete lease %s",
				o.Since().UTC().Format(time.RFC3339), namespace, v1alpha1.LeaseManager),
		}
	default:
		return metav1.Condition{}
	}
}

// awakeOf returns the condition Awake to write. While nothing is known, the one that an earlier manager wrote stays.
func awakeOf(found finding, status v1alpha1.TargetStatus) metav1.Condition {
	was := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAwake)
	if found.awakeUnknown && was != nil {
		return *was
	}
	return found.awake
}

// recordAwake records an event if the target's manager has become silent, or is awake again.
func (r *Reconciler) recordAwake(target client.Object, was *metav1.Condition, is metav1.Condition) {
	silent := is.Status == metav1.ConditionFalse
	wasSilent := was != nil && was.Status == metav1.ConditionFalse
	if silent == wasSilent {
		return
	}
	eventType := corev1.EventTypeNormal
	if silent {
		eventType = corev1.EventTypeWarning
	}
	if is.Type == "" {
		is.Reason = v1alpha1.ReasonNoLease
		is.Message = "the target's manager has no Lease any more, so it does not count as silent"
	}
	r.options.Recorder.Eventf(target, nil, eventType, is.Reason, "Connect", "%s: %s",
		targetkind.Name(client.ObjectKeyFromObject(target)), is.Message)
}
