package manager

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
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
		HolderIdentity: "them", LeaderTransitions: 1,
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
			l := &lease{Interface: lock, clock: fake, lost: func(error) { got = true }}
			for _, step := range test.steps {
				step(l, lock)
			}
			if got != test.want {
				t.Errorf("lost is %v, want %v", got, test.want)
			}
		})
	}
}

// roundTripper counts requests.
type roundTripper struct{ sent int }

func (r *roundTripper) RoundTrip(*http.Request) (*http.Response, error) {
	r.sent++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

func TestALeaderThatWasFrozenWritesNothingMore(t *testing.T) {
	fake := clocktesting.NewFakeClock(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	l := &lease{Interface: &playedLock{clock: fake}, clock: fake, lost: func(error) {}}
	server := &roundTripper{}
	to, err := rest.HTTPClientFor(l.fence(&rest.Config{Transport: server}))
	if err != nil {
		t.Fatal(err)
	}
	sent := func(method string) bool {
		t.Helper()
		before := server.sent
		request, err := http.NewRequestWithContext(t.Context(), method, "http://source", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := to.Do(request)
		if err == nil {
			err = answer.Body.Close()
		}
		if passed := server.sent > before; passed != (err == nil) {
			t.Errorf("%s: sent is %v, and the error is %v", method, passed, err)
		}
		return server.sent > before
	}
	ours := resourcelock.LeaderElectionRecord{HolderIdentity: "us"}
	for _, step := range []struct {
		what string
		do   func()
		want bool
	}{
		{"a replica that does not lead writes", func() { fake.Step(time.Hour) }, true},
		{"a leader writes", func() { _ = l.Create(t.Context(), ours) }, true},
		{"a leader just before the end of its right writes", func() { fake.Step(timeouts.LeaseEndsProcess - 1) }, true},
		{"a leader without a renewal writes", func() { fake.Step(1) }, false},
		{"a leader that renewed late writes", func() { _ = l.Update(t.Context(), ours) }, true},
		{"a replica that released its Lease writes", func() {
			_ = l.Update(t.Context(), resourcelock.LeaderElectionRecord{})
			fake.Step(time.Hour)
		}, true},
	} {
		step.do()
		if got := sent(http.MethodPatch); got != step.want {
			t.Errorf("%s: %v, want %v", step.what, got, step.want)
		}
		if !sent(http.MethodGet) {
			t.Errorf("%s, and does not read", step.what)
		}
	}
}

func TestALeaseFromThePastIsNoticed(t *testing.T) {
	begin := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	record := func(holder string, transitions int, at time.Duration) *resourcelock.LeaderElectionRecord {
		return &resourcelock.LeaderElectionRecord{
			HolderIdentity: holder, LeaderTransitions: transitions, RenewTime: metav1.NewTime(begin.Add(at)),
		}
	}
	var none *resourcelock.LeaderElectionRecord
	for name, test := range map[string]struct {
		before, after *resourcelock.LeaderElectionRecord
		leads         bool
		want          bool
	}{
		"it is renewed":           {before: record("them", 3, 0), after: record("them", 3, time.Second)},
		"it is taken":             {before: record("them", 3, time.Hour), after: record("others", 4, 0)},
		"it is released":          {before: record("them", 3, 0), after: record("", 3, 0)},
		"it was made anew":        {before: none, after: record("them", 0, 0)},
		"a released one is taken": {before: record("", 3, 0), after: record("them", 4, time.Second)},
		"an earlier one was taken since": {
			before: record("them", 4, 0), after: record("others", 4, time.Hour), want: true,
		},
		"an earlier one was taken since, and it was released before": {
			before: record("", 4, 0), after: record("others", 4, time.Hour), want: true,
		},
		"the holder's clock was set back": {before: record("them", 3, time.Second), after: record("them", 3, 0)},
		"of the same holder, one renewal ago": {
			before: record("them", 3, timeouts.LeaseRenewal), after: record("them", 3, 0), want: true,
		},
		"of the same holder, an hour ago": {
			before: record("them", 3, time.Hour), after: record("them", 3, 0), want: true,
		},
		"of an earlier holder": {
			before: record("them", 3, 0), after: record("others", 2, time.Hour), want: true,
		},
		"our own, an hour ago": {
			before: record("us", 3, time.Hour), after: record("us", 3, 0), leads: true, want: true,
		},
		"our own, a moment ago": {
			before: record("us", 3, time.Microsecond), after: record("us", 3, 0), leads: true, want: true,
		},
		"our own, as we wrote it": {
			before: record("us", 3, time.Hour+999), after: record("us", 3, time.Hour), leads: true,
		},
		"of an earlier holder, while we lead": {
			before: record("us", 3, 0), after: record("them", 2, 0), leads: true, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(begin)
			lock := &playedLock{clock: fake}
			var got error
			l := &lease{Interface: lock, clock: fake, lost: func(why error) { got = why }}
			switch {
			case test.leads:
				_ = l.Update(t.Context(), *test.before)
			case test.before == nil:
				lock.err = apierrors.NewNotFound(schema.GroupResource{}, "lease")
				_, _, _ = l.Get(t.Context())
			default:
				lock.record = *test.before
				_, _, _ = l.Get(t.Context())
			}
			lock.record, lock.err = *test.after, nil
			_, _, _ = l.Get(t.Context())
			if back := errors.Is(got, errSetBack); back != test.want {
				t.Errorf("it ends because of %v, want %t", got, test.want)
			}
		})
	}
}
