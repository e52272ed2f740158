package hold

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// epochInterval is how often the epoch is raised.
const epochInterval = 10 * time.Minute

// errLapsed says that the Lease was not renewed in time. Nobody else may hold it.
var errLapsed = errors.New("the Lease in the target could not be renewed in time")

// errOverdue says that a renewal was not answered yet.
var errOverdue = fmt.Errorf("renewing the Lease in the target: %w", context.DeadlineExceeded)

// errReleased says that this process released the Lease.
var errReleased = errors.New("the Lease in the target was released")

// Hold is the right to act in a target, as a wire.RightToAct. It is safe for concurrent use.
type Hold struct {
	process *Process
	request Request

	ctx context.Context //nolint:containedctx // it is the right
	end context.CancelCauseFunc

	// turn has room for one: renewals and confirmations come one after the other. Whoever has it may use the fields up
	// to confirmed.
	turn      chan struct{}
	last      written
	shared    bool      // a sibling renews the Lease, too
	confirmed time.Time // when the target was asked for the last confirmation

	mu      sync.Mutex // guards the fields below
	epoch   int64
	raised  time.Time
	timer   clock.Timer // ends the hold
	until   time.Time   // when the timer fires; zero before the hold begins
	failed  error       // of the last renewal
	refused bool        // the target refused a renewal, and has carried out none since
	renewed time.Time   // when the last renewal was answered
}

// written is a Lease as the target has it, when the request was sent that renewed it, and how long the hold lasts
// since.
type written struct {
	*coordinationv1.Lease

	asked time.Time
	lasts time.Duration
}

// Context ends when the right ends. Its cause is an *OtherError or a *TurnedBackError if somebody must do something.
func (h *Hold) Context() context.Context { return h.ctx }

// Ended returns why the right has ended, or nil while it lasts. It looks at the clock, so it does not wait for Context
// to end: the timers of a process that was frozen fire some time after it goes on.
func (h *Hold) Ended() error {
	if err := context.Cause(h.ctx); err != nil {
		return err
	}
	return h.lapsed()
}

// lapsed returns an error if the Lease was not renewed in time. Renewals end with this, too: the target must not hear
// of a source that counts as silent.
func (h *Hold) lapsed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until.IsZero() || h.process.options.Clock.Now().Before(h.until) {
		return nil
	}
	return errLapsed
}

// Epoch returns the epoch to remember.
func (h *Hold) Epoch() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.epoch
}

// Failed returns why the last renewal failed, or nil.
func (h *Hold) Failed() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// Refused says whether the target has refused a renewal for lack of rights since it carried out the last one.
func (h *Hold) Refused() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.refused
}

// note notes what became of a renewal. That no answer comes does not take a refusal back.
func (h *Hold) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
	h.refused = err != nil && (h.refused || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err))
}

// Renewed returns when the last renewal was answered.
func (h *Hold) Renewed() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewed
}

// Overdue returns why no renewal succeeded in time, or nil if one did. That some fail in between does not matter.
func (h *Hold) Overdue() error {
	within := timeouts.HoldRenewal + h.request.timeout()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.process.options.Clock.Since(h.renewed) <= within:
		return nil
	case h.failed != nil:
		return h.failed
	}
	return errOverdue
}

// Confirm asks the target, and returns nil if it was not set back, and nobody else acts there. What the target said
// just before is then of the present.
func (h *Hold) Confirm(ctx context.Context) error {
	called := h.process.options.Clock.Now()
	if err := h.takeTurn(ctx); err != nil {
		return err
	}
	defer h.endTurn()
	if err := context.Cause(h.ctx); err != nil {
		return err
	}
	if h.confirmed.After(called) {
		return nil // Somebody asked while this call waited.
	}
	asked := h.process.options.Clock.Now()
	lease, err := h.request.get(ctx)
	if err == nil {
		err = h.decide(ctx, lease)
	}
	if err == nil {
		h.confirmed = asked
	}
	return err
}

// Release ends the right. If the process stops, it leaves the Lease to the next leader. Otherwise the Lease stays this
// process's, and expires.
func (h *Hold) Release(ctx context.Context, stopping bool) {
	mine := h.ctx.Err() == nil || errors.Is(context.Cause(h.ctx), context.Canceled)
	h.end(errReleased)
	h.mu.Lock()
	h.timer.Stop()
	h.mu.Unlock()
	if !stopping || !mine || h.process.options.OwnLease == nil {
		return
	}
	if h.takeTurn(ctx) != nil {
		return // The Lease expires.
	}
	defer h.endTurn()
	left := h.renewal(h.process.options.Clock.Now())
	left.holder = h.process.next
	h.process.noteSending(h.request)
	err := h.request.update(ctx, left.write(h.last.Lease), h.lapsed)
	if apierrors.IsConflict(err) { // A renewal was under way.
		if lease, err := h.request.get(ctx); err == nil && holderOf(lease) == h.process.holder {
			_ = h.request.update(ctx, left.write(lease), h.lapsed) // If this fails, the Lease expires.
		}
	}
}

// begin starts the renewals after the first one.
func (h *Hold) begin(life context.Context, first written) {
	h.ctx, h.end = context.WithCancelCause(life)
	h.turn = make(chan struct{}, 1)
	h.extend(first)
	go h.keep()
}

// takeTurn waits for the renewal or the confirmation under way, at most until ctx ends.
func (h *Hold) takeTurn(ctx context.Context) error {
	select {
	case h.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for a renewal of Lease %q: %w", h.request.Lease, context.Cause(ctx))
	}
}

func (h *Hold) endTurn() { <-h.turn }

func (h *Hold) keep() {
	wait := timeouts.HoldRenewal
	for h.ctx.Err() == nil {
		pause.For(h.ctx, h.process.options.Clock, wait)
		begun := h.process.options.Clock.Now()
		if h.ctx.Err() == nil {
			h.renew(h.ctx)
		}
		if wait = lookInterval; h.Failed() == nil { // A slow answer must not delay the next renewal.
			wait = max(0, timeouts.HoldRenewal-h.process.options.Clock.Since(begun))
		}
	}
}

// renew renews the Lease. Only a success, or an answer that ends the hold, has consequences now.
func (h *Hold) renew(ctx context.Context) {
	if h.takeTurn(ctx) != nil {
		return
	}
	defer h.endTurn()
	var next written
	var err error
	if !h.shared {
		next, err = h.write(ctx, h.last.Lease, h.process.options.Clock.Now())
	}
	if h.shared || apierrors.IsConflict(err) {
		next, err = h.rejoin(ctx)
	}
	h.note(err)
	if err == nil {
		h.extend(next)
	}
}

// rejoin reads the Lease, and renews it unless a sibling has done so.
func (h *Hold) rejoin(ctx context.Context) (written, error) {
	asked := h.process.options.Clock.Now()
	lease, err := h.request.get(ctx)
	if err == nil {
		err = h.decide(ctx, lease)
	}
	if err != nil {
		return written{}, err
	}
	by := renewedAt(lease)
	h.shared = by.After(renewedAt(h.last.Lease)) && !by.After(asked)
	if h.shared && asked.Sub(by) < timeouts.HoldRenewal/2 && !h.request.wary() {
		h.process.look(h.request.Target, lease)
		return written{lease, by, timeouts.HoldEnds}, nil
	}
	return h.write(ctx, lease, asked)
}

// write writes a renewal.
func (h *Hold) write(ctx context.Context, lease *coordinationv1.Lease, now time.Time) (written, error) {
	r := h.renewal(now)
	var lasts time.Duration
	r.duration, lasts = h.process.lasting(lease.UID, h.request.wary())
	next := r.write(lease)
	h.process.noteSending(h.request)
	err := h.request.update(ctx, next, h.lapsed)
	h.process.noteSending(h.request) // The request may have waited for a connection.
	if err != nil {
		return written{}, err
	}
	h.mu.Lock()
	if r.epoch > h.epoch {
		h.epoch, h.raised = r.epoch, now
	}
	h.mu.Unlock()
	h.process.look(h.request.Target, next)
	return written{next, now, lasts}, nil
}

func (h *Hold) renewal(now time.Time) renewal {
	h.mu.Lock()
	defer h.mu.Unlock()
	epoch := h.epoch
	if now.Sub(h.raised) >= epochInterval {
		epoch = min(epoch+1, maxEpoch)
	}
	return renewal{
		holder: h.process.holder, clusterID: h.process.options.ClusterID, epoch: epoch, now: now,
		duration: timeouts.HoldDuration,
	}
}

// decide decides what a Lease means that this process has not written, or not last. It ends the hold if the Lease is
// not this process's any more. Other holds of this process may have renewed it: those of siblings.
func (h *Hold) decide(ctx context.Context, lease *coordinationv1.Lease) error {
	if lease.UID != h.last.UID {
		if err := h.request.same(ctx); err != nil {
			return err
		}
	}
	err := h.lost(lease)
	if err != nil {
		h.end(err)
		return err
	}
	h.mu.Lock()
	h.epoch = max(h.epoch, epochOf(lease))
	h.mu.Unlock()
	return nil
}

// lost returns why the hold ends, or nil if it does not.
func (h *Hold) lost(lease *coordinationv1.Lease) error {
	p, target := h.process, h.request.Target
	epoch, found, holder := h.Epoch(), epochOf(lease), holderOf(lease)
	mine := holder == p.holder
	switch {
	case holder == p.next:
		return errReleased // A sibling has stopped.
	case found < epoch, lease.UID != h.last.UID, !mine && found == epoch,
		mine && renewedAt(lease).Before(renewedAt(h.last.Lease)):
		// Whoever takes the Lease raises the epoch. So a Lease of others without a higher one is from the past.
		remembered := max(epoch, found+1)
		p.note(target, func(is *sight) { is.back, is.remembered = true, max(is.remembered, remembered) })
		return &TurnedBackError{Remembered: remembered, Found: found}
	case !mine:
		is := p.look(target, lease)
		p.note(target, func(is *sight) { is.rival = true })
		return &OtherError{Holder: is.holder, Renewed: is.changed}
	}
	return nil
}

// extend lets the hold last for some time after a renewal was asked for. Its caller has the turn, or nobody else knows
// the hold yet.
func (h *Hold) extend(by written) {
	h.last = by
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed = h.process.options.Clock.Now()
	if h.timer != nil {
		h.timer.Stop()
	}
	h.until = by.asked.Add(by.lasts)
	left := by.lasts - h.process.options.Clock.Since(by.asked)
	h.timer = h.process.options.Clock.AfterFunc(left, func() { h.end(errLapsed) })
}
