package chaperons

import (
	"errors"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

var errNotOffered = errors.New("the informer of PodChaperons by namespace does not offer this")

// informer passes on the events of all namespaces. Those of one namespace come one after the other.
type informer struct{ cache *Cache }

var _ cache.Informer = &informer{}

// registration is an event handler, with its registration in each namespace.
type registration struct {
	handler toolscache.ResourceEventHandler
	of      map[*namespace]toolscache.ResourceEventHandlerRegistration
	synced  chan struct{}
}

// add is called under Cache.mu.
func (r *registration) add(n *namespace) error {
	handle, err := n.informer.AddEventHandler(r.handler)
	if err == nil {
		r.of[n] = handle
	}
	return err
}

// AddEventHandler adds a handler for the namespaces of now, and for those that are watched later. It has synced when it
// was called with the objects of the namespaces that are listed by now.
func (i *informer) AddEventHandler(
	handler toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	c := i.cache
	r := &registration{
		handler: handler, of: map[*namespace]toolscache.ResourceEventHandlerRegistration{}, synced: make(chan struct{}),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var listed []<-chan struct{}
	for _, n := range c.namespaces {
		has := n.informer.HasSynced()
		if err := r.add(n); err != nil {
			return nil, err
		}
		if has {
			listed = append(listed, r.of[n].HasSyncedChecker().Done())
		}
	}
	c.handlers[r] = struct{}{}
	go func() {
		defer close(r.synced)
		for _, done := range listed {
			select {
			case <-done:
			case <-c.life.Done():
			}
		}
	}()
	return r, nil
}

// RemoveEventHandler removes a handler.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return errNotOffered
	}
	i.cache.mu.Lock()
	defer i.cache.mu.Unlock()
	delete(i.cache.handlers, r)
	var all []error
	for n, handle := range r.of {
		all = append(all, n.informer.RemoveEventHandler(handle))
	}
	clear(r.of)
	return errors.Join(all...)
}

// HasSynced says whether the handler has seen what was listed when it was added.
func (r *registration) HasSynced() bool { return toolscache.IsDone(r) }

// HasSyncedChecker waits for that.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r }

// Name is for logs.
func (r *registration) Name() string { return "PodChaperons by namespace" }

// Done is closed when the handler has synced.
func (r *registration) Done() <-chan struct{} { return r.synced }

// HasSynced says that namespaces are waited for one by one: see Cache.Watch.
func (i *informer) HasSynced() bool { return true }

// HasSyncedChecker is done.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker {
	done := make(chan struct{})
	close(done)
	return &registration{synced: done}
}

// IsStopped says whether the engagement has ended.
func (i *informer) IsStopped() bool { return i.cache.life.Err() != nil }

// AddEventHandlerWithResyncPeriod is not offered.
func (i *informer) AddEventHandlerWithResyncPeriod(
	toolscache.ResourceEventHandler, time.Duration,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, errNotOffered
}

// AddEventHandlerWithOptions is not offered.
func (i *informer) AddEventHandlerWithOptions(
	toolscache.ResourceEventHandler, toolscache.HandlerOptions,
) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, errNotOffered
}

// AddIndexers is not offered.
func (i *informer) AddIndexers(toolscache.Indexers) error { return errNotOffered }
