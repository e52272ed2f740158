package hold

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	// lookInterval is how often a process looks at a Lease that it waits for.
	lookInterval = 2 * time.Second
	// requestTimeout bounds a request about a Lease, unless somebody is wary of the target.
	requestTimeout = 4 * time.Second
)

// Request asks for the Lease of a target.
type Request struct {
	// Target is the ClusterTarget or Target.
	Target types.NamespacedName
	// Cluster is the ID that the target tells of its cluster, or empty. Siblings have the same.
	Cluster string
	// Client reads and writes the Lease in the target. It must go on while a Hold lasts.
	Client client.Client
	Lease  types.NamespacedName
	// Same returns an error unless the cluster that answers is the one that the target belongs to. A Lease of another
	// one says nothing about the target. It may be nil.
	Same func(context.Context) error
	// Wary says whether the target is slow, or its answers fail. Then requests may take long, and the right lasts
	// longer after each renewal. So does the wait of the next holder, after a crash. It may be nil.
	Wary func() bool
	// Remembered is the epoch that the source remembers, or 0. Accepted is the one whose loss is accepted, or 0.
	Remembered, Accepted int64
}

// Acquire takes the Lease, or waits until nobody else can hold it. The Hold lasts until it is released, at most until
// life ends.
//
// It returns an *OtherError as soon as it knows that another cluster acts there, a *TurnedBackError if the target was
// set back, and a *SharedUserError if the Lease is that of a source with another cluster ID.
func (p *Process) Acquire(ctx, life context.Context, r Request) (*Hold, error) {
	p.readHeir(ctx)
	for ctx.Err() == nil {
		lease, err := r.get(ctx)
		if err != nil {
			return nil, err
		}
		is := p.look(r.Target, lease)
		epoch, err := r.nextEpoch(is)
		if err != nil {
			return nil, err
		}
		wait, err := p.mayTake(lease, is)
		if err != nil {
			return nil, err
		}
		if wait > 0 {
			pause.For(ctx, p.options.Clock, min(wait, lookInterval))
			continue
		}
		hold, err := p.take(ctx, life, r, lease, epoch)
		if !apierrors.IsConflict(err) {
			return hold, err
		}
	}
	return nil, fmt.Errorf("waiting for Lease %q: %w", r.Lease, context.Cause(ctx))
}

// nextEpoch returns the epoch with which the Lease is taken.
func (r Request) nextEpoch(is sight) (int64, error) {
	remembered := max(r.Remembered, is.remembered)
	if is.back || is.epoch < remembered {
		remembered = max(remembered, is.epoch+1)
		if r.Accepted != remembered {
			return 0, &TurnedBackError{Remembered: remembered, Found: is.epoch}
		}
	}
	return min(remembered+1, maxEpoch), nil
}

// mayTake returns how long to wait before the Lease may be taken, if nobody renews it.
func (p *Process) mayTake(lease *coordinationv1.Lease, is sight) (time.Duration, error) {
	p.mu.Lock()
	other := p.someoneElse(is.holder)
	p.mu.Unlock()
	if !other {
		return 0, nil
	}
	silent, held := p.options.Clock.Since(is.changed), durationOf(lease)
	if cluster := clusterOf(lease); cluster != p.options.ClusterID {
		if silent < held {
			return 0, &SharedUserError{cluster}
		}
		return 0, nil
	}
	if is.rival && silent < timeouts.HoldOfOthers {
		return 0, &OtherError{Holder: is.holder, Renewed: is.changed}
	}
	if !is.doubted.IsZero() {
		held += timeouts.HoldDuration // A copy that has no proof yet comes after a replica of the other cluster.
	}
	return held - silent, nil
}

// take takes the Lease as it was read. A Conflict means that it has changed since.
func (p *Process) take(
	ctx, life context.Context, r Request, lease *coordinationv1.Lease, epoch int64,
) (*Hold, error) {
	h := &Hold{process: p, request: r, epoch: epoch, raised: p.options.Clock.Now()}
	written, err := h.write(ctx, lease, p.options.Clock.Now())
	if err != nil {
		return nil, err
	}
	p.note(r.Target, func(is *sight) { is.back = false })
	h.begin(life, written)
	return h, nil
}

// same returns an error unless the right cluster answers, as far as somebody can say.
func (r Request) same(ctx context.Context) error {
	if r.Same == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	return r.Same(ctx)
}

func (r Request) wary() bool { return r.Wary != nil && r.Wary() }

// timeout bounds one request. In a target that answers in time, there is time for another one before the right ends.
func (r Request) timeout() time.Duration {
	if r.wary() {
		return timeouts.Request
	}
	return requestTimeout
}

func (r Request) get(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout())
	defer cancel()
	lease := &coordinationv1.Lease{}
	if err := r.Client.Get(ctx, r.Lease, lease); err != nil {
		return nil, fmt.Errorf("getting Lease %q: %w", r.Lease, err)
	}
	return lease, nil
}

// update writes the Lease while a right lasts.
func (r Request) update(ctx context.Context, lease *coordinationv1.Lease, right wire.Right) error {
	ctx, cancel := context.WithTimeout(wire.Deciding(ctx, right), r.timeout())
	defer cancel()
	if err := r.Client.Update(ctx, lease); err != nil {
		return fmt.Errorf("writing Lease %q: %w", r.Lease, err)
	}
	return nil
}
