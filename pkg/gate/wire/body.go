package wire

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/amounts"
)

// body is the bounded body of an answer. It is not safe for concurrent use, except Close.
type body struct {
	source  io.ReadCloser
	ctx     context.Context //nolint:containedctx // that of the request, which has the body
	cancel  context.CancelCauseFunc
	timer   clock.Timer // of the request
	account *Account
	cutter  amounts.Cutter
	scanner scanner
	left    time.Duration // for the event that has begun
	turn    *Turn         // for a list that is large; nil if it needs none
	size    int64         // what was read
	hasTurn atomic.Bool
	err     error
	ended   func() // is called at the end of a list, perhaps several times; nil if it is none
}

// Read reads bytes that keep the bounds. After an error there are no more.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p[:min(len(p), chunk)])
	b.cutter.Cut(p[:n])
	if exceeded := b.vet(p[:n]); exceeded != nil {
		b.fail(exceeded)
		return 0, exceeded
	}
	if err != nil {
		if !errors.Is(err, io.EOF) {
			err = causeOf(b.ctx, err)
		}
		b.fail(err)
	}
	return n, err
}

// vet scans bytes, and waits until the target may send them.
func (b *body) vet(p []byte) error {
	events, initial := b.scanner.values, b.scanner.list != nil
	err := b.scanner.scan(p)
	if bound := (*BoundError)(nil); errors.As(err, &bound) {
		b.account.Violated(bound.What)
		return bound
	}
	if b.scanner.watched {
		if b.scanner.values > events {
			b.left = b.scanner.limits.Frame
		}
		if initial && b.scanner.list == nil {
			b.timer.Stop()
		}
	}
	if b.size += int64(len(p)); b.turn != nil && b.size > b.scanner.limits.LargeList && !b.hasTurn.Load() {
		if err := b.await(); err != nil {
			return err
		}
	}
	if err := b.account.spend(b.ctx, len(p)); err != nil {
		return causeOf(b.ctx, &TimeoutError{"an answer"})
	}
	return nil
}

// await waits for the turn. The target's time begins anew then.
func (b *body) await() error {
	b.timer.Stop()
	if err := b.turn.take(b.ctx); err != nil {
		return err
	}
	b.hasTurn.Store(true)
	if b.ctx.Err() != nil { // Close may not have seen the turn.
		b.end(nil)
		return b.ctx.Err()
	}
	b.timer.Reset(b.scanner.limits.Relist)
	return nil
}

// read reads from the target. Once an event of a watch has begun, only the time that the target takes to complete it
// counts: not the time until its bytes are wanted.
func (b *body) read(p []byte) (int, error) {
	if !b.scanner.watched || !b.scanner.begun() {
		return b.source.Read(p)
	}
	c := b.account.clock
	began := c.Now()
	timer := c.AfterFunc(b.left, func() { b.cancel(&TimeoutError{"an event of a watch"}) })
	n, err := b.source.Read(p)
	timer.Stop()
	b.left -= c.Since(began)
	return n, err
}

// fail ends the request, so that nothing more is received for it.
func (b *body) fail(err error) {
	b.err = err
	b.end(err)
}

// end ends the request, and gives the turn to the next target.
func (b *body) end(err error) {
	b.timer.Stop()
	b.cancel(err)
	if b.hasTurn.Swap(false) {
		b.turn.give()
	}
	if b.ended != nil {
		b.ended()
	}
}

// Close ends the request.
func (b *body) Close() error {
	b.end(nil)
	return b.source.Close()
}
