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

// Observer is told of engaged targets. Its methods are called one after the other for one target, from the goroutine
// that engages it; they must return soon and must not call the Registry's Engage, Disengage, SetReachable or SetPolicy.
type Observer interface {
	// Engaged is called once the target is in the Registry, its cache synced. ctx ends when the target is disengaged. An
	// error undoes the engagement, to be tried again later.
	Engaged(ctx context.Context, target *Target) error
	// ReachabilityChanged is called when Target.Reachable changed after Engaged.
	ReachabilityChanged(target *Target)
	// PolicyChanged is called when Target.Policy changed after Engaged.
	PolicyChanged(target *Target)
}

// Registry is the set of engaged targets. It is safe for concurrent use; reading it takes a read lock and no more.
type Registry struct {
	observers []Observer

	mu     sync.RWMutex // guards byKey and byNode
	byKey  map[types.NamespacedName]*Target
	byNode map[string]*Target
}

// NewRegistry makes an empty Registry. Its observers are told in the order given.
func NewRegistry(observers ...Observer) *Registry {
	return &Registry{
		observers: observers,
		byKey:     map[types.NamespacedName]*Target{},
		byNode:    map[string]*Target{},
	}
}

// Observe adds an observer. It must be called before the first Engage.
func (r *Registry) Observe(o Observer) { r.observers = append(r.observers, o) }

// Engage adds a reachable target whose cache has synced and tells the observers. The caller cancels ctx, after
// Disengage, to end what they started. On error the target is not in the Registry, and ctx must be cancelled.
func (r *Registry) Engage(ctx context.Context, target *Target) error {
	target.reachable.Store(true)
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

// SetReachable notes whether the target's API server answers, and tells the observers if that is news.
func (r *Registry) SetReachable(target *Target, reachable bool) {
	if target.reachable.Swap(reachable) == reachable {
		return
	}
	for _, o := range r.observers {
		o.ReachabilityChanged(target)
	}
}

// SetPolicy notes how pods are to be placed in the target from now on, and tells the observers if that is news and the target is
// engaged: before that, it is part of making the target.
func (r *Registry) SetPolicy(target *Target, policy *v1alpha1.PlacementPolicy) {
	was := target.policy.Swap(policy)
	if equality.Semantic.DeepEqual(was, policy) {
		return
	}
	if engaged, ok := r.ByKey(target.Key); !ok || engaged != target {
		return
	}
	for _, o := range r.observers {
		o.PolicyChanged(target)
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
