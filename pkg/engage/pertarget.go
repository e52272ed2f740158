package engage

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// PerTarget holds the value that an observer keeps for each engaged target. The zero value is ready for use, and safe
// for concurrent use. While a target is engaged anew, it holds one value for each of the two engagements.
type PerTarget[T any] struct {
	mu       sync.RWMutex // guards byTarget
	byTarget map[*Target]engaged[T]
}

// engaged is the value of an engagement that lasts until its context has an error.
type engaged[T any] struct {
	value T
	end   func() error
}

// Set keeps value for target until ctx, the context of the engagement, ends.
func (p *PerTarget[T]) Set(ctx context.Context, target *Target, value T) {
	p.mu.Lock()
	if p.byTarget == nil {
		p.byTarget = map[*Target]engaged[T]{}
	}
	p.byTarget[target] = engaged[T]{value, ctx.Err}
	p.mu.Unlock()
	context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.byTarget, target)
	})
}

// Get returns the value of this engagement of a target, and false once the engagement has ended.
func (p *PerTarget[T]) Get(target *Target) (T, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if e, ok := p.byTarget[target]; ok && e.end() == nil {
		return e.value, true
	}
	var none T
	return none, false
}

// All returns the values of all engagements that have not ended, in no order.
func (p *PerTarget[T]) All() []T {
	p.mu.RLock()
	defer p.mu.RUnlock()
	values := make([]T, 0, len(p.byTarget))
	for _, e := range p.byTarget {
		if e.end() == nil {
			values = append(values, e.value)
		}
	}
	return values
}

// OnEvents calls seen with each object of a kind in the target's cache that is there, comes or changes, and gone with
// each that goes, until ctx ends. It returns when seen has been called with those that were there. Either may be nil.
func OnEvents[T client.Object](ctx context.Context, target *Target, kind T, seen, gone func(T)) error {
	informer, err := target.Cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("getting the informer of %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(watch.On(whileAlive(ctx, seen), whileAlive(ctx, gone)))
	if err != nil {
		return fmt.Errorf("handling events of %T: %w", kind, err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
	if !toolscache.WaitFor(ctx, "", registration.HasSyncedChecker()) {
		return fmt.Errorf("handling events of %T: %w", kind, context.Cause(ctx))
	}
	return nil
}

// whileAlive calls f until ctx ends: an informer may have events of a removed handler in flight.
func whileAlive[T any](ctx context.Context, f func(T)) func(T) {
	if f == nil {
		return nil
	}
	return func(object T) {
		if ctx.Err() == nil {
			f(object)
		}
	}
}
