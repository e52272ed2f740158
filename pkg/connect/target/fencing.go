package target

import (
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
)

// fencing says whether this source may rely on it that a target which does not answer fences delegates.
type fencing int

const (
	// fencingUnknown means that this process has not seen the target. An earlier leader may have.
	fencingUnknown fencing = iota
	fencingHolds
	// fencingDoubtful means that the target may have heard of this source without its knowledge, or may have stopped to
	// listen: another manager acts there, the target refuses this source, or it was set back, say.
	fencingDoubtful
)

// after returns the fencing after a condition with a reason, given the engagement, or nil. A target that stops
// answering remains as it was. So does one that this source does not ask, because it lacks something of its own.
func (was fencing) after(reason string, e *engagement) fencing {
	switch {
	case reason == v1alpha1.ReasonUnreachable, reason == v1alpha1.ReasonNoKey,
		reason == v1alpha1.ReasonAddressesUnknown:
		return was
	case e == nil, !e.target.Fences(), v1alpha1.LeavesNodeUnknown(reason):
		return fencingDoubtful
	}
	return fencingHolds
}

// write returns TargetStatus.Fences. While nothing is known, that of an earlier leader stays.
func (was fencing) write(status v1alpha1.TargetStatus) *bool {
	if was == fencingUnknown {
		return ptr.To(ptr.Deref(status.Fences, false))
	}
	return ptr.To(was == fencingHolds)
}

// fences says whether a target fences delegates of this source, as far as was seen. A target that refuses a renewal may
// have withdrawn the rights of this source, whose delegates it then does not fence.
func (l *loop) fences(e *engagement) bool {
	return e.hold != nil && !e.hold.Refused() && l.awake.Fences() && l.awake.State() != awake.Silent
}
