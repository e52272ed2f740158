package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// ErrNotListed says that a Store has no list yet, and that no attempt has failed.
var ErrNotListed = errors.New("not known yet")

// ErrEnded says that a Store's Run returned before there was a list.
var ErrEnded = errors.New("the watch has ended")

// StoreOptions configures a Store. EntryOf is required. The functions are called by one goroutine, without a lock.
type StoreOptions[T metav1.Object, E comparable] struct {
	// EntryOf returns the entry that is kept of an object.
	EntryOf func(T) E
	// Transform drops fields of an object that EntryOf does not read, before many are gathered for a list.
	Transform toolscache.TransformFunc
	// Listed is called after each list, with the entries from before. These are nil the first time.
	Listed func(before map[string]E)
	// Changed is called when the entry of an object is new, is another, or is gone. A new object has no old entry. An
	// object that is gone has no new one.
	Changed func(name string, before, after *E)
	// Kept is called with the change of the number of entries, and of the bytes that SizeOf returns of them. When Run
	// has returned, both have become zero again.
	Kept   func(entries, bytes int64)
	SizeOf func(name string, entry *E) int64
	// Failed is called when the watch fails for the first time, and again after it worked.
	Failed func(error)
}

// Store keeps an entry of each object of a kind, in a namespace or in a whole cluster, while Run watches them. It is
// the store of a client-go reflector, which keeps nothing else. It is safe for concurrent use.
type Store[T metav1.Object, E comparable] struct {
	options  StoreOptions[T, E]
	answered chan struct{} // closed when there is a list, or an error
	answer   func()        // closes answered

	mu      sync.RWMutex // guards entries and err
	entries map[string]E // nil until there is a list
	err     error        // of the last attempt
}

var _ toolscache.TransformingStore = &Store[*metav1.PartialObjectMetadata, int]{}

// NewStore makes a Store that knows nothing before Run.
func NewStore[T metav1.Object, E comparable](options StoreOptions[T, E]) *Store[T, E] {
	if options.Listed == nil {
		options.Listed = func(map[string]E) {}
	}
	if options.Changed == nil {
		options.Changed = func(string, *E, *E) {}
	}
	if options.Failed == nil {
		options.Failed = func(error) {}
	}
	if options.Kept == nil || options.SizeOf == nil {
		options.Kept, options.SizeOf = func(int64, int64) {}, func(string, *E) int64 { return 0 }
	}
	answered := make(chan struct{})
	return &Store[T, E]{
		options:  options,
		answered: answered,
		answer:   sync.OnceFunc(func() { close(answered) }),
	}
}

// Run lists and watches objects until ctx ends, and tries again after errors. The name is that of the reflector in
// logs. Run must be called once at most.
func (s *Store[T, E]) Run(ctx context.Context, name string, c clock.Clock, objects toolscache.ListerWatcher) {
	var expected T
	reflector := toolscache.NewReflectorWithOptions(
		objects, expected, s, toolscache.ReflectorOptions{Name: name, Clock: c},
	)
	Again(ctx, c, 800*time.Millisecond, 30*time.Second, func(ctx context.Context) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			s.fail(err)
		}
	})
	s.note(ErrEnded)
	entries, bytes := s.total(s.Entries())
	s.options.Kept(-entries, -bytes)
}

// total returns how many entries there are, and their bytes.
func (s *Store[T, E]) total(entries map[string]E) (count, bytes int64) {
	for name, entry := range entries {
		bytes += s.options.SizeOf(name, &entry)
	}
	return int64(len(entries)), bytes
}

func (s *Store[T, E]) fail(err error) {
	if s.note(err) {
		s.options.Failed(err)
	}
}

// note keeps an error, and says whether it is the first since the watch worked.
func (s *Store[T, E]) note(err error) (first bool) {
	s.mu.Lock()
	first = s.err == nil
	s.err = err
	s.mu.Unlock()
	s.answer()
	return first
}

// Err returns nil once there is a list, which may be old: then the next list is under way. Before, it returns the error
// of the last attempt, or ErrNotListed.
func (s *Store[T, E]) Err() error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch {
	case s.entries != nil:
		return nil
	case s.err != nil:
		return s.err
	default:
		return ErrNotListed
	}
}

// Wait waits until there is a list, and returns the first error.
func (s *Store[T, E]) Wait(ctx context.Context) error {
	select {
	case <-s.answered:
		return s.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Entry returns the entry of an object, or nil.
func (s *Store[T, E]) Entry(name string) *E {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if entry, ok := s.entries[name]; ok {
		return &entry
	}
	return nil
}

// Entries returns all entries, by name.
func (s *Store[T, E]) Entries() map[string]E {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return maps.Clone(s.entries)
}

// Lacks says whether an object surely does not exist. A Store whose last attempt failed is not sure.
func (s *Store[T, E]) Lacks(name string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, exists := s.entries[name]
	return s.entries != nil && s.err == nil && !exists
}

// Add is called by the reflector. So are the methods below. An event before the first list is an error, because a Store
// with entries claims to know all objects.
func (s *Store[T, E]) Add(object any) error { return s.Update(object) }

// Update replaces the entry of an object.
func (s *Store[T, E]) Update(object any) error {
	typed, ok := object.(T)
	if !ok {
		return fmt.Errorf("unexpected %T", object)
	}
	name, after := typed.GetName(), s.options.EntryOf(typed)
	s.mu.Lock()
	if s.entries == nil {
		s.mu.Unlock()
		return ErrNotListed
	}
	before, existed := s.entries[name]
	s.entries[name] = after
	s.err = nil
	s.mu.Unlock()
	switch {
	case !existed:
		s.options.Kept(1, s.options.SizeOf(name, &after))
		s.options.Changed(name, nil, &after)
	case before != after:
		s.options.Kept(0, s.options.SizeOf(name, &after)-s.options.SizeOf(name, &before))
		s.options.Changed(name, &before, &after)
	}
	return nil
}

// Delete removes the entry of an object, if there is one.
func (s *Store[T, E]) Delete(object any) error {
	typed, ok := object.(T)
	if !ok {
		return fmt.Errorf("unexpected %T", object)
	}
	name := typed.GetName()
	s.mu.Lock()
	if s.entries == nil {
		s.mu.Unlock()
		return ErrNotListed
	}
	before, existed := s.entries[name]
	delete(s.entries, name)
	s.err = nil
	s.mu.Unlock()
	if existed {
		s.options.Kept(-1, -s.options.SizeOf(name, &before))
		s.options.Changed(name, &before, nil)
	}
	return nil
}

// Replace replaces all entries by those of a list.
func (s *Store[T, E]) Replace(objects []any, _ string) error {
	entries := make(map[string]E, len(objects))
	for _, object := range objects {
		typed, ok := object.(T)
		if !ok {
			return fmt.Errorf("unexpected %T", object)
		}
		entries[typed.GetName()] = s.options.EntryOf(typed)
	}
	s.mu.Lock()
	before := s.entries
	s.entries, s.err = entries, nil
	s.mu.Unlock()
	s.answer()
	was, bytesBefore := s.total(before)
	is, bytes := s.total(entries)
	s.options.Kept(is-was, bytes-bytesBefore)
	s.options.Listed(before)
	return nil
}

// Resync does nothing: entries change with events only.
func (s *Store[T, E]) Resync() error { return nil }

// Transformer returns the Transform of the options.
func (s *Store[T, E]) Transformer() toolscache.TransformFunc { return s.options.Transform }
