package main

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// informer is a cache of the objects of one kind in a store. It shows each change after watchTime, and calls its
// handlers one after the other.
type informer struct {
	cache.Informer

	kind reflect.Type
	news chan struct{} // has room for one

	mu      sync.Mutex // guards the field below
	pending []change

	shown    sync.RWMutex // guards the fields below
	objects  map[client.ObjectKey]client.Object
	handlers []toolscache.ResourceEventHandler
}

// newInformer returns an informer that shows the objects of the store, and their changes until ctx ends.
func newInformer(ctx context.Context, s *store, kind client.Object) *informer {
	i := &informer{
		kind: reflect.TypeOf(kind), news: make(chan struct{}, 1),
		objects: map[client.ObjectKey]client.Object{},
	}
	s.watch(func(c change) {
		if reflect.TypeOf(c.object()) != i.kind {
			return
		}
		if c.initial {
			i.objects[client.ObjectKeyFromObject(c.after)] = c.after
			return
		}
		i.note(c)
	})
	go i.run(ctx)
	return i
}

func (i *informer) note(c change) {
	i.mu.Lock()
	i.pending = append(i.pending, c)
	i.mu.Unlock()
	notify(i.news)
}

// notify notes something in a channel that has room for one.
func notify(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

func (i *informer) run(ctx context.Context) {
	for {
		select {
		case <-i.news:
		case <-ctx.Done():
			return
		}
		i.mu.Lock()
		changes := i.pending
		i.pending = nil
		i.mu.Unlock()
		for _, c := range changes {
			if !pause(ctx, time.Until(c.at.Add(watchTime))) {
				return
			}
			i.show(c)
		}
	}
}

// pause returns false if ctx ends before the time has passed.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (i *informer) show(c change) {
	key := client.ObjectKeyFromObject(c.object())
	i.shown.Lock()
	if c.after == nil {
		delete(i.objects, key)
	} else {
		i.objects[key] = c.after
	}
	handlers := i.handlers
	i.shown.Unlock()
	for _, h := range handlers {
		switch {
		case c.after == nil:
			h.OnDelete(c.before)
		case c.before == nil:
			h.OnAdd(c.after, false)
		default:
			h.OnUpdate(c.before, c.after)
		}
	}
}

// AddEventHandler calls the handler with the objects that there are, and then with changes. It must not be called while
// there are changes.
func (i *informer) AddEventHandler(
	h toolscache.ResourceEventHandler,
) (toolscache.ResourceEventHandlerRegistration, error) {
	i.shown.Lock()
	defer i.shown.Unlock()
	for _, o := range i.objects {
		h.OnAdd(o, true)
	}
	i.handlers = append(i.handlers[:len(i.handlers):len(i.handlers)], h)
	return synced{}, nil
}

// RemoveEventHandler does nothing: whoever removes a handler ignores later events.
func (*informer) RemoveEventHandler(toolscache.ResourceEventHandlerRegistration) error { return nil }

// get makes to the same as the object that the cache shows.
func (i *informer) get(key client.ObjectKey, to client.Object) error {
	i.shown.RLock()
	defer i.shown.RUnlock()
	found, ok := i.objects[key]
	if !ok {
		return apierrors.NewNotFound(resourceOf(ref{i.kind, key}), key.Name)
	}
	assign(to, found)
	return nil
}

// assign makes an object the same as another one of its kind, as a read does that does not copy.
func assign(to, from client.Object) { reflect.ValueOf(to).Elem().Set(reflect.ValueOf(from).Elem()) }

// synced is the registration of a handler that got everything.
type synced struct{}

func (synced) HasSynced() bool                          { return true }
func (synced) HasSyncedChecker() toolscache.DoneChecker { return synced{} }
func (synced) Name() string                             { return "" }
func (synced) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// caches is a cache.Cache with these kinds.
type caches struct {
	cache.Cache

	all []*informer
}

// GetInformer returns the informer of a kind.
func (c caches) GetInformer(
	_ context.Context, o client.Object, _ ...cache.InformerGetOption,
) (cache.Informer, error) {
	if i := c.of(o); i != nil {
		return i, nil
	}
	return nil, fmt.Errorf("there is no cache of %T: %w", o, &meta.NoKindMatchError{})
}

func (c caches) of(o client.Object) *informer {
	for _, i := range c.all {
		if i.kind == reflect.TypeOf(o) {
			return i
		}
	}
	return nil
}
