package scheduling

import (
	"sync"
	"sync/atomic"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

// target is an engaged target, and what its policy adds to its room.
type target struct {
	*placement.Target

	// added is the room of the nodes that could be added, and the policy that says so.
	added atomic.Pointer[growth]
	// waking says that the pods that wait for the target are going to be woken.
	waking atomic.Bool
}

type growth struct {
	policy *v1alpha1.ScaleUp
	room   *fit.Room
}

// growth returns the room of the nodes that could be added.
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

// placing returns what placement knows of the engaged target with that node, or nil if there is none.
func (t *targets) placing(nodeName string) *placement.Target {
	if engaged := t.get(nodeName); engaged != nil {
		return engaged.Target
	}
	return nil
}

// all returns the engaged targets.
func (t *targets) all() []*placement.Target {
	t.mu.RLock()
	defer t.mu.RUnlock()
	all := make([]*placement.Target, 0, len(t.byNode))
	for _, engaged := range t.byNode {
		all = append(all, engaged.Target)
	}
	return all
}
