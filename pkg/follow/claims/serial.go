package claims

import (
	"context"
	"sync"
)

// serial lets callers with the same key in one after the other. The zero value is ready for use.
type serial[K comparable] struct {
	mu   sync.Mutex // guards held
	held map[K]chan struct{}
}

// enter waits until the key is free. It fails only when ctx ends; otherwise the caller must call release.
func (s *serial[K]) enter(ctx context.Context, key K) (release func(), err error) {
	for {
		s.mu.Lock()
		holder, ok := s.held[key]
		if !ok {
			break
		}
		s.mu.Unlock()
		select {
		case <-holder:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer s.mu.Unlock()
	if s.held == nil {
		s.held = map[K]chan struct{}{}
	}
	left := make(chan struct{})
	s.held[key] = left
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.held, key)
		close(left)
	}, nil
}
