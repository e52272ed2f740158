package placement

import (
	"errors"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
)

// errDisconnected says that a target was disengaged while a pod was placed in it.
var errDisconnected = errors.New("it was disconnected")

// ConcludedError says that there is no pod to schedule any more.
type ConcludedError struct{}

// Error is for logs.
func (*ConcludedError) Error() string { return "the pod was deleted or bound while it was placed" }

// Refusal is the reason why a target is given up for a pod: its answer, or that there was none.
type Refusal int

const (
	// Unschedulable means that the target's scheduler found no node.
	Unschedulable Refusal = iota
	// Forbidden means that the target's API server does not take the pod.
	Forbidden
	// RightsMissing means that the target's RBAC does not allow the source to create the PodChaperon, or something that
	// the pod needs.
	RightsMissing
	// Late means that the target did not decide in time.
	Late
	// ScheduledElsewhere means that the pod's delegate is scheduled in another target.
	ScheduledElsewhere
	// CreateFailed means that the PodChaperon could not be created, although the target did not refuse it.
	CreateFailed
	// QuotaFull means that a quota of the target has no room for the PodChaperon, or for something that the pod needs.
	QuotaFull
	// StillEnding means that an earlier delegate of the pod is still being deleted in the target.
	StillEnding
	// NoTurn means that the source did not ask the target, because it was creating too many other PodChaperons there.
	NoTurn
)

// refusalFor returns the refusal that follows from the class of an API server's answer.
func refusalFor(class apierror.Class) Refusal {
	switch class {
	case apierror.RightsMissing:
		return RightsMissing
	case apierror.QuotaExceeded:
		return QuotaFull
	default:
		return Forbidden
	}
}

// RefusedError is a target's refusal to run a pod now. The target has no delegate of the pod, or only one that is being
// deleted (StillEnding). So another target may be tried at once.
type RefusedError struct {
	Target, Reason string
	Refusal        Refusal
	// MoreRoom says that the target has shown more room since it refused.
	MoreRoom bool
	// roomier is how often the target had shown more room when it refused. It is zero if it was not counted then.
	roomier int64
}

// Error names the target.
func (e *RefusedError) Error() string { return e.Target + ": " + e.Reason }

// CreateError says that the PodChaperon was not created, as far as anybody knows, and that the target has not refused
// it.
type CreateError struct {
	Target string
	Cause  error
}

// Error names the target.
func (e *CreateError) Error() string {
	return "creating the PodChaperon in " + e.Target + ": " + e.Cause.Error()
}

// Unwrap returns the answer of the target's API server, or the reason why it was not asked.
func (e *CreateError) Unwrap() error { return e.Cause }
