package engage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Observer works with engaged targets. Its methods are called one after the other for one target, from the goroutine
// that engages it. They must return soon and must not call the Registry's Engage, Disengage, Lapse, Lose or SetPolicy.
//
// An Observer may be a LossObserver and a PolicyObserver, too.
type Observer interface {
	// Engaged is called once the target is in the Registry and its cache has synced. ctx ends when the target is
	// disengaged. An error undoes the engagement, which is tried again later.
	Engaged(ctx context.Context, target *Target) error
}

// LossObserver is an Observer that reacts when a target is out of reach.
type LossObserver interface {
	// Lost is called once when the target is not Reachable any more, and once when it is Lost, which may be at the same
	// time. The target stays engaged, with its cache as it was. When its API server answers again, Engaged is called
	// with another *Target, and then ctx of this one ends.
	Lost(target *Target)
}

// PolicyObserver is an Observer that reacts to changes of a target's policy.
type PolicyObserver interface {
	// PolicyChanged is called when Target.Policy has changed after Engaged.
	PolicyChanged(target *Target)
}

// Registry is the set of engaged targets. It is safe for concurrent use; reading it takes a read lock and no more.
type Registry struct {
	observers []Observer

	mu     sync.RWMutex // guards byKey and byNode
	byKey  map[types.NamespacedName]*Target
	byNode map[string]*Target
}

// NewRegistry makes an empty Registry. Its observers are notified in the order given.
func NewRegistry(observers ...Observer) *Registry {
	return &Registry{
		observers: observers,
		byKey:     map[types.NamespacedName]*Target{},
		byNode:    map[string]*Target{},
	}
}

// Observe adds an observer. It must be called before the first Engage.
func (r *Registry) Observe(o Observer) { r.observers = append(r.observers, o) }

// Engage adds a target whose cache has synced, and notifies the observers. A target that was lost is engaged anew as
// another *Target: Engage must not be called twice with the same one. The caller cancels ctx, after Disengage, to end
// the observers' work. On error the target is not in the Registry, and the caller must cancel ctx.
func (r *Registry) Engage(ctx context.Context, target *Target) error {
	r.mu.Lock()
	r.byKey[target.Key] = target
	r.byNode[target.NodeName] = target
	r.mu.Unlock()
	for _, o := range r.observers {
		if err := o.Engaged(ctx, target); err != nil {
			r.Disengage(target)
			return fmt.Errorf("engaging target %q: %w", target.Key, err)
		}
	}
	return nil
}

// Disengage removes a target. It does nothing if the target is not the one of that key that is engaged now.
func (r *Registry) Disengage(target *Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKey[target.Key] != target {
		return
	}
	delete(r.byKey, target.Key)
	delete(r.byNode, target.NodeName)
}

// Lapse notes that the target is out of reach for now: the source has lost the right to act there. It notifies the
// observers unless they know already.
func (r *Registry) Lapse(target *Target) {
	if !target.lapsed.Swap(true) {
		r.notifyLoss(target)
	}
}

// Lose notes that the target's API server does not answer any more, and notifies the observers the first time.
func (r *Registry) Lose(target *Target) {
	target.lapsed.Store(true)
	if !target.lost.Swap(true) {
		r.notifyLoss(target)
	}
}

func (r *Registry) notifyLoss(target *Target) {
	for _, o := range r.observers {
		if o, ok := o.(LossObserver); ok {
			o.Lost(target)
		}
	}
}

// SetPolicy sets how pods are placed in the target from now on. It notifies the observers if the policy differs and the
// target is engaged; before that, the policy is part of making the target.
func (r *Registry) SetPolicy(target *Target, policy *v1alpha1.PlacementPolicy) {
	was := target.policy.Swap(policy)
	if equality.Semantic.DeepEqual(was, policy) {
		return
	}
	if engaged, ok := r.ByKey(target.Key); !ok || engaged != target {
		return
	}
	for _, o := range r.observers {
		if o, ok := o.(PolicyObserver); ok {
			o.PolicyChanged(target)
		}
	}
}

// ByKey finds the engaged target of a (Cluster)Target.
func (r *Registry) ByKey(key types.NamespacedName) (*Target, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	target, ok := r.byKey[key]
	return target, ok
}

// ByNode finds the engaged target of a virtual node.
func (r *Registry) ByNode(nodeName string) (*Target, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	target, ok := r.byNode[nodeName]
	return target, ok
}

// All returns the engaged targets, in no order.
func (r *Registry) All() []*Target {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Collect(maps.Values(r.byKey))
}
