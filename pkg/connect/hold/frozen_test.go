package hold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// late is the clock of a process that is frozen soon: its next timers fire after the end of the hold. That of the end
// itself fires last.
type late struct{ clock.RealClock }

const frozenFor = 20 * time.Second

func (l late) NewTimer(d time.Duration) clock.Timer { return l.RealClock.NewTimer(d + frozenFor) }

func (l late) AfterFunc(_ time.Duration, do func()) clock.Timer {
	return l.RealClock.AfterFunc(time.Hour, do)
}

// behindFence is a client whose writes a fence stops, as in the connection to a target.
type behindFence struct {
	client.Client

	fence   wire.Fence
	stopped atomic.Int32
}

func (b *behindFence) Update(ctx context.Context, o client.Object, options ...client.UpdateOption) error {
	if err := b.fence.Check(ctx); err != nil {
		b.stopped.Add(1)
		return err
	}
	return b.Client.Update(ctx, o, options...)
}

func TestAProcessThatWasFrozenRenewsNoMore(t *testing.T) {
	in(t, func(w *world) {
		p := New(Options{ClusterID: "c1", Name: "frozen", Clock: late{}, OwnLease: &etcd{}})
		p.Lead()
		to := &behindFence{Client: w.target}
		request := w.request()
		request.Client = to
		life, end := context.WithCancel(w.Context())
		defer end()
		h, err := p.Acquire(w.Context(), life, request)
		if err != nil {
			w.Fatal(err)
		}
		to.fence.Until(h)
		lease := &coordinationv1.Lease{}
		if err := w.target.Get(w.Context(), leaseKey, lease); err != nil {
			w.Fatal(err)
		}
		first := lease.ResourceVersion

		<-time.After(timeouts.HoldEnds - time.Millisecond)
		if err := to.fence.Check(w.Context()); err != nil {
			w.Errorf("just before the hold ends: %v", err)
		}
		<-time.After(time.Millisecond)
		if err := to.fence.Check(w.Context()); !errors.Is(err, errLapsed) || h.Context().Err() != nil {
			w.Errorf("the hold is over, and writes get %v; its context: %v", err, h.Context().Err())
		}
		<-time.After(frozenFor)
		if to.stopped.Load() == 0 {
			w.Error("no renewal was tried, so this test shows nothing")
		}
		h.Release(w.Context(), true)
		if err := w.target.Get(w.Context(), leaseKey, lease); err != nil {
			w.Fatal(err)
		}
		if lease.ResourceVersion != first {
			w.Errorf("after the hold was over, somebody wrote %+v", lease.Spec)
		}
	})
}
