package manager

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
	clocktesting "k8s.io/utils/clock/testing"
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

func TestTheLeaseTellsWhenItIsLost(t *testing.T) {
	ours, theirs := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}, resourcelock.LeaderElectionRecord{HolderIdentity: "them"}
	take := func(t *testing.T, l *lease, _ *playedLock) { _ = l.Create(t.Context(), ours) }
	renew := func(t *testing.T, l *lease, _ *playedLock) { _ = l.Update(t.Context(), ours) }
	release := func(t *testing.T, l *lease, _ *playedLock) {
		_ = l.Update(t.Context(), resourcelock.LeaderElectionRecord{})
	}
	look := func(t *testing.T, l *lease, _ *playedLock) { _, _, _ = l.Get(t.Context()) }
	stolen := func(_ *testing.T, _ *lease, p *playedLock) { p.record = theirs }
	away := func(_ *testing.T, _ *lease, p *playedLock) { p.err = errors.New("no answer") }
	slow := func(_ *testing.T, _ *lease, p *playedLock) { p.takes = 4 * time.Second }
	pass := func(d time.Duration) func(*testing.T, *lease, *playedLock) {
		return func(_ *testing.T, _ *lease, p *playedLock) { p.clock.Step(d) }
	}
	for name, test := range map[string]struct {
		steps []func(*testing.T, *lease, *playedLock)
		want  bool
	}{
		"a lease that is renewed":                  {steps: []func(*testing.T, *lease, *playedLock){take, pass(lapse - 1), renew, look, pass(lapse - 1)}},
		"one that is not":                          {steps: []func(*testing.T, *lease, *playedLock){take, pass(lapse)}, want: true},
		"one that could not be renewed":            {steps: []func(*testing.T, *lease, *playedLock){take, pass(lapse - 1), away, renew, pass(1)}, want: true},
		"one that another has":                     {steps: []func(*testing.T, *lease, *playedLock){take, stolen, look}, want: true},
		"one that was never ours":                  {steps: []func(*testing.T, *lease, *playedLock){stolen, look, pass(time.Hour)}},
		"one that we released":                     {steps: []func(*testing.T, *lease, *playedLock){take, release, stolen, look, pass(time.Hour)}},
		"one whose renewal counts from the asking": {steps: []func(*testing.T, *lease, *playedLock){take, slow, renew, pass(lapse - 4*time.Second)}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
			lock := &playedLock{clock: fake}
			got := false
			l := &lease{Interface: lock, clock: fake, lost: func() { got = true }}
			for _, step := range test.steps {
				step(t, l, lock)
			}
			if got != test.want {
				t.Errorf("lost is %v, want %v", got, test.want)
			}
		})
	}
}
