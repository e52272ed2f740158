package wire

import "context"

// Turn lets targets send large lists one after another: such a list is in the manager's memory as a whole before
// anybody sees its items. It is safe for concurrent use. A nil Turn lets all send at once.
type Turn struct{ taken chan struct{} }

// NewTurn returns a Turn that nobody has.
func NewTurn() *Turn { return &Turn{taken: make(chan struct{}, 1)} }

// take waits for the turn. Those who wait get it in the order in which they came.
func (t *Turn) take(ctx context.Context) error {
	select {
	case t.taken <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// give gives the turn to the next one.
func (t *Turn) give() { <-t.taken }
