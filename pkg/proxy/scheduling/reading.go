package scheduling

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// lookInterval is how long after one look at a namespace the next one follows. A look asks the target only once it says
// that it has nothing there.
const lookInterval = 5 * time.Second

// ByNamespace is a cache that reads PodChaperons namespace by namespace, as that of package connect/chaperons does.
type ByNamespace interface {
	// Listed says whether a namespace is listed, and the handlers have seen all its PodChaperons. It does not wait.
	Listed(namespace string) bool
}

// reading is an engagement of a target whose PodChaperons are read namespace by namespace. The target may refuse some
// namespaces. elders.mu guards its fields that change.
type reading struct {
	engagement context.Context //nolint:containedctx // It is what ends.
	target     *engage.Target
	cache      ByNamespace
	clock      clock.WithDelayedExecution
	// changed is called when the target says more about a namespace that somebody waits for.
	changed func()

	looks sets.Set[string] // the namespaces that are looked at again and again
}

// look calls read when all delegates that the target has in a namespace are known by now, unless the engagement ends
// before. They are known when the namespace is listed. The target may also say that it has nothing there.
func (r *reading) look(namespace string, read func()) {
	switch {
	case r.engagement.Err() != nil:
	case r.cache.Listed(namespace), r.target.ConfirmsNothingIn(r.engagement, namespace):
		read()
		r.changed()
	default:
		r.clock.AfterFunc(lookInterval, func() { r.look(namespace, read) })
	}
}

// reached notes that a target is engaged: its cache shows all delegates that it has. If it is read namespace by
// namespace, this is so for those that it does not refuse. changed is called when it says more about another one.
func (e *elders) reached(engagement context.Context, target *engage.Target, changed func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cache, partly := target.Cache.(ByNamespace)
	if !partly {
		e.engaged.Insert(target.Key)
		return
	}
	r := &reading{
		engagement: engagement, target: target, cache: cache, clock: e.clock, changed: changed,
		looks: sets.New[string](),
	}
	e.readings[target.Key] = r
	context.AfterFunc(engagement, func() { e.endReading(r) })
}

// endReading lets go of the cache of an engagement that has ended.
func (e *elders) endReading(r *reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.readings[r.target.Key] == r {
		delete(e.readings, r.target.Key)
	}
}

// hasReached says whether all delegates that a target has in a namespace are known, or were known once. If not, the
// target is looked at again and again.
func (e *elders) hasReached(target types.NamespacedName, namespace string) bool {
	in := corner{target, namespace}
	e.mu.RLock()
	known, r := e.engaged.Has(target) || e.read.Has(in), e.readings[target]
	e.mu.RUnlock()
	switch {
	case known || r == nil || r.engagement.Err() != nil:
		return known
	case r.cache.Listed(namespace):
		e.noteRead(in)
		return true
	}
	if e.beginLooking(r, namespace) {
		go r.look(namespace, func() { e.noteRead(in) }) // It may ask the target.
	}
	return false
}

func (e *elders) noteRead(in corner) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.read.Insert(in)
}

// beginLooking says whether nobody looks at a namespace yet.
func (e *elders) beginLooking(r *reading, namespace string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.looks.Has(namespace) {
		return false
	}
	r.looks.Insert(namespace)
	return true
}
