package claims

import (
	"context"
	"sync"
)

// serial lets callers with the same key in one after the other. The zero value is ready for use.
type serial[K comparable] struct {
	mu   sync.Mutex          // guards busy
	busy map[K]chan struct{} // closed when the caller with the key leaves
}

// enter waits until the key is free. It fails only when ctx ends; otherwise the caller must call release.
func (s *serial[K]) enter(ctx context.Context, key K) (release func(), err error) {
	for {
		s.mu.Lock()
		left, ok := s.busy[key]
		if !ok {
			break
		}
		s.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer s.mu.Unlock()
	if s.busy == nil {
		s.busy = map[K]chan struct{}{}
	}
	left := make(chan struct{})
	s.busy[key] = left
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.busy, key)
		close(left)
	}, nil
}
