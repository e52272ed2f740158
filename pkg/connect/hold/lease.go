package hold

import (
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func holderOf(lease *coordinationv1.Lease) string { return ptr.Deref(lease.Spec.HolderIdentity, "") }

func renewedAt(lease *coordinationv1.Lease) time.Time {
	if lease.Spec.RenewTime == nil {
		return time.Time{}
	}
	return lease.Spec.RenewTime.Time
}

// maxEpoch is more than any source reaches. It has no next epoch: a target that says that it has this one keeps it, and
// may be set back unnoticed.
const maxEpoch = 1 << 48

// epochOf returns the epoch of a Lease, and 0 if there is none, or one that no source wrote.
func epochOf(lease *coordinationv1.Lease) int64 {
	epoch, err := strconv.ParseInt(lease.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	if err != nil || epoch < 0 || epoch > maxEpoch {
		return 0
	}
	return epoch
}

// clusterOf returns the cluster ID of the source that held a Lease last.
func clusterOf(lease *coordinationv1.Lease) string {
	return lease.Annotations[v1alpha1.LabelParentClusterID]
}

// durationOf returns how long after a renewal the holder of a Lease may rely on it. Holders choose it within bounds.
func durationOf(lease *coordinationv1.Lease) time.Duration {
	d := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return min(max(d, timeouts.HoldDuration), timeouts.HoldDurationWary)
}

// renewal is what the holder of a Lease writes.
type renewal struct {
	holder, clusterID string
	epoch             int64
	now               time.Time
	duration          time.Duration
}

// write returns the Lease with the renewal.
func (r renewal) write(lease *coordinationv1.Lease) *coordinationv1.Lease {
	lease = lease.DeepCopy()
	now := metav1.NewMicroTime(r.now.Truncate(time.Microsecond)) // as the API server stores it
	switch last := renewedAt(lease); {
	case holderOf(lease) != r.holder:
		lease.Spec.AcquireTime = &now
		lease.Spec.LeaseTransitions = ptr.To(ptr.Deref(lease.Spec.LeaseTransitions, 0) + 1)
	case !now.After(last): // The clock was set back. An earlier time would look as if the target was.
		now = metav1.NewMicroTime(last.Add(time.Microsecond))
	}
	lease.Spec.HolderIdentity = &r.holder
	lease.Spec.RenewTime = &now
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(r.duration / time.Second)) //nolint:gosec // See durationOf.
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationEpoch, strconv.FormatInt(r.epoch, 10))
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.LabelParentClusterID, r.clusterID)
	metav1.SetMetaDataAnnotation(&lease.ObjectMeta, v1alpha1.AnnotationReadsByNamespace, "")
	return lease
}
