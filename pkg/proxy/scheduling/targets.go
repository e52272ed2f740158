package scheduling

import (
	"context"
	"sync"
	"sync/atomic"

	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// target is an engaged target and what is known of its room.
type target struct {
	*engage.Target
	// disengaged is closed when the target is disengaged.
	disengaged <-chan struct{}
	// ledger of what is free there.
	ledger *fit.Ledger
	// added is the room of the nodes that could be added, and the policy that says so.
	added atomic.Pointer[growth]
	// waking says that the pods that wait for the target are going to be woken.
	waking atomic.Bool
}

type growth struct {
	policy *v1alpha1.ScaleUp
	room   *fit.Room
}

func newTarget(ctx context.Context, t *engage.Target, clusterID string, c clock.PassiveClock) *target {
	return &target{Target: t, disengaged: ctx.Done(), ledger: fit.NewLedger(clusterID, c)}
}

// name is how users know the target.
func (t *target) name() string { return targetkind.Name(t.Key) }

func (t *target) gone() bool {
	select {
	case <-t.disengaged:
		return true
	default:
		return false
	}
}

// growth is the room of the nodes that could be added.
func (t *target) growth() *fit.Room {
	policy := t.Policy().ScaleUp
	if policy == nil {
		return nil
	}
	if known := t.added.Load(); known != nil && known.policy == policy {
		return known.room
	}
	room := fit.GrowthRoom(policy.NodeClasses)
	t.added.Store(&growth{policy, room})
	return room
}

// targets finds engaged targets by their virtual nodes.
type targets struct {
	mu     sync.RWMutex // guards byNode
	byNode map[string]*target
}

func newTargets() *targets { return &targets{byNode: map[string]*target{}} }

func (t *targets) add(engaged *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byNode[engaged.NodeName] = engaged
}

// remove does nothing if another target has taken the node's name since.
func (t *targets) remove(disengaged *target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byNode[disengaged.NodeName] == disengaged {
		delete(t.byNode, disengaged.NodeName)
	}
}

// get returns nil if no engaged target has that node.
func (t *targets) get(nodeName string) *target {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byNode[nodeName]
}
