package scheduling

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// target is an engaged target and what its cache last said of its room.
type target struct {
	*engage.Target
	// disengaged is closed when the target is disengaged.
	disengaged <-chan struct{}
	// summary is the ClusterSummary in the cache, not to be changed; nil while there is none.
	summary atomic.Pointer[v1alpha1.ClusterSummary]
}

func newTarget(ctx context.Context, t *engage.Target) *target {
	return &target{Target: t, disengaged: ctx.Done()}
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
