package placement

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// Target is an engaged target in which delegates are placed.
type Target struct {
	*engage.Target

	// Ledger of the target's room. Placing reads from it whether the room has grown, and changes nothing.
	Ledger *fit.Ledger
	// disengaged is closed when the target is disengaged.
	disengaged <-chan struct{}
}

// NewTarget makes a Target that is engaged until ctx ends. clusterID is the source's.
func NewTarget(ctx context.Context, engaged *engage.Target, clusterID string, c clock.PassiveClock) *Target {
	return &Target{Target: engaged, Ledger: fit.NewLedger(clusterID, c), disengaged: ctx.Done()}
}

// Name is how users know the target.
func (t *Target) Name() string { return targetkind.Name(t.Key) }

// Gone says whether the target is disengaged.
func (t *Target) Gone() bool {
	select {
	case <-t.disengaged:
		return true
	default:
		return false
	}
}
