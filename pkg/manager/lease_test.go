package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// playedLock is a lock without an API server; its writes take a while.
type playedLock struct {
	resourcelock.Interface
	clock  *clocktesting.FakeClock
	record resourcelock.LeaderElectionRecord
	takes  time.Duration
	err    error
}

func (p *playedLock) Identity() string { return "us" }

func (p *playedLock) Get(context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return &p.record, nil, p.err
}

func (p *playedLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return p.Update(ctx, record)
}

func (p *playedLock) Update(_ context.Context, record resourcelock.LeaderElectionRecord) error {
	p.clock.Step(p.takes)
	if p.err == nil {
		p.record = record
	}
	return p.err
}

func TestTheLeaseReportsItsLoss(t *testing.T) {
	ctx := t.Context()
	ours, theirs := resourcelock.LeaderElectionRecord{
		HolderIdentity: "us",
	}, resourcelock.LeaderElectionRecord{
		HolderIdentity: "them",
	}
	take := func(l *lease, _ *playedLock) { _ = l.Create(ctx, ours) }
	renew := func(l *lease, _ *playedLock) { _ = l.Update(ctx, ours) }
	release := func(l *lease, _ *playedLock) {
		_ = l.Update(ctx, resourcelock.LeaderElectionRecord{})
	}
	look := func(l *lease, _ *playedLock) { _, _, _ = l.Get(ctx) }
	stolen := func(_ *lease, p *playedLock) { p.record = theirs }
	away := func(_ *lease, p *playedLock) { p.err = errors.New("no answer") }
	slow := func(_ *lease, p *playedLock) { p.takes = 4 * time.Second }
	pass := func(d time.Duration) func(*lease, *playedLock) {
		return func(_ *lease, p *playedLock) { p.clock.Step(d) }
	}
	for name, test := range map[string]struct {
		steps []func(*lease, *playedLock)
		want  bool
	}{
		"a lease that is renewed": {
			steps: []func(*lease, *playedLock){
				take, pass(timeouts.LeaseEndsProcess - 1), renew, look, pass(timeouts.LeaseEndsProcess - 1),
			},
		},
		"a lease that is not renewed": {
			steps: []func(*lease, *playedLock){take, pass(timeouts.LeaseEndsProcess)}, want: true,
		},
		"a lease that could not be renewed": {
			steps: []func(*lease, *playedLock){take, pass(timeouts.LeaseEndsProcess - 1), away, renew, pass(1)},
			want:  true,
		},
		"a lease that another has":    {steps: []func(*lease, *playedLock){take, stolen, look}, want: true},
		"a lease that was never ours": {steps: []func(*lease, *playedLock){stolen, look, pass(time.Hour)}},
		"a lease that we released": {
			steps: []func(*lease, *playedLock){take, release, stolen, look, pass(time.Hour)},
		},
		"a lease whose renewal counts from the request": {
			steps: []func(*lease, *playedLock){take, slow, renew, pass(timeouts.LeaseEndsProcess - 4*time.Second)},
			want:  true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
			lock := &playedLock{clock: fake}
			got := false
			l := &lease{Interface: lock, clock: fake, lost: func() { got = true }}
			for _, step := range test.steps {
				step(l, lock)
			}
			if got != test.want {
				t.Errorf("lost is %v, want %v", got, test.want)
			}
		})
	}
}
