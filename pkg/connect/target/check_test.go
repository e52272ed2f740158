package target

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// checked is an engagement whose ClusterSummary is read from a fake API server.
type checked struct {
	*engagement
	fixture

	broken *atomic.Bool // The hold is not renewed.

	mu    sync.Mutex // guards the fields below
	reads int
	// answer is what the API server says. publishes is the cluster ID that it publishes.
	answer    error
	publishes string
}

// answers has the API server answer something from now on.
func (c *checked) answers(answer error, publishes string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer, c.publishes = answer, publishes
}

// read returns how often the ClusterSummary was read.
func (c *checked) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads
}

func newChecked(t *testing.T, holds bool) *checked {
	t.Helper()
	f := newFixture(t, http.StatusServiceUnavailable)
	c := &checked{fixture: f, broken: &atomic.Bool{}, publishes: "c2"}
	key := types.NamespacedName{Name: "c2"}
	reader := fakeOf(t, interceptor.Funcs{Get: func(
		_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
	) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reads++
		if summary, ok := o.(*v1alpha1.ClusterSummary); ok {
			summary.Labels, summary.Status.ClusterID = map[string]string{"zone": "a"}, c.publishes
		}
		return c.answer
	}})
	c.engagement = &engagement{
		target:   &engage.Target{Key: key, APIReader: reader, Account: wire.NewAccount(wire.Default(), f.clock)},
		dialer:   &dialer{deadline: func() time.Duration { return healthTimeout }},
		identity: identity.New("c2"),
	}
	if holds {
		c.hold = held(t, f, key, c.broken)
	}
	return c
}

// overdue has renewals fail for so long that the Lease is overdue, and is still held.
func (c *checked) overdue() {
	c.broken.Store(true)
	c.clock.Step(timeouts.HoldEnds - time.Second)
}

func TestRenewalsStandForMostChecks(t *testing.T) {
	for name, test := range map[string]struct{ holds, ends, want bool }{
		"the Lease is held":          {holds: true, want: true},
		"the Lease is held no more":  {holds: true, ends: true},
		"the target makes no Leases": {},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecked(t, test.holds)
			if test.ends {
				c.hold.Release(t.Context(), false)
			}
			for range 3 * checksPerSummary {
				if _, _, err := c.check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			want := 3 * checksPerSummary
			if test.want {
				want = 1 + 3 // The first one has nothing to stand for.
			}
			if got := c.read(); got != want {
				t.Errorf("%d reads of the ClusterSummary, want %d", got, want)
			}
		})
	}
}

func TestWhatAHealthCheckSays(t *testing.T) {
	busy := apierrors.NewServiceUnavailable("busy")
	refused := apierrors.NewUnauthorized("who?")
	forged := &gate.ForgedError{Reason: "it is too large"}
	for name, test := range map[string]struct {
		holds, first bool // whether there is a hold, and whether no check has succeeded before
		overdue      bool
		answer       error
		publishes    string // another cluster
		self         bool
		invalid      bool
		want         error
		other        bool
	}{
		"it answers":                                     {},
		"it answers, and its Lease is renewed":           {holds: true},
		"it is busy":                                     {answer: busy, want: busy},
		"it is busy, and its Lease is renewed":           {holds: true, answer: busy},
		"it is busy, and its Lease is overdue":           {holds: true, overdue: true, answer: busy, want: busy},
		"it is busy, and has never answered":             {holds: true, first: true, answer: busy, want: busy},
		"it refuses us, although it renews":              {holds: true, answer: refused, want: refused},
		"its ClusterSummary is a lie":                    {answer: forged, invalid: true},
		"another cluster answers":                        {publishes: "c3", other: true},
		"another cluster answers with a lie":             {publishes: "c3", answer: forged, invalid: true, other: true},
		"the source itself may tell anything":            {publishes: "c3", self: true},
		"an error says nothing about what cluster":       {publishes: "c3", answer: busy, want: busy},
		"it publishes nothing, and renewals go on there": {holds: true, publishes: "c3", answer: busy},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecked(t, test.holds)
			c.self = test.self
			if !test.first {
				if _, _, err := c.check(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			c.checks = checksPerSummary - 1 // The next one reads.
			if test.overdue {
				c.overdue()
			}
			c.answers(test.answer, cmp.Or(test.publishes, "c2"))
			summary, invalid, err := c.check(t.Context())
			if other := errors.As(err, new(*identity.OtherClusterError)); other != test.other {
				t.Errorf("another cluster answers: %t", other)
			}
			if !test.other && !errors.Is(err, test.want) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if summary == nil || (invalid != nil) != test.invalid {
				t.Errorf("summary %v, invalid %v", summary, invalid)
			}
			if test.invalid && summary.Labels != nil {
				t.Error("something is believed of an invalid ClusterSummary")
			}
		})
	}
}

func TestATargetWhoseRenewalIsOverdueIsAsked(t *testing.T) {
	c := newChecked(t, true)
	if _, _, err := c.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.check(t.Context()); err != nil || !c.renewed() {
		t.Errorf("renewals go on: error %v", err)
	}
	now := c.clock.Now()
	if c.read() > 1 || !c.heard(now.Add(time.Second)).Equal(now) {
		t.Error("a check that relies on a renewal asks, or has heard of the target since")
	}
	c.overdue()
	now = c.clock.Now()
	if _, _, err := c.check(t.Context()); err != nil || c.read() != 2 || !c.heard(now).Equal(now) {
		t.Errorf("the Lease is overdue, and a target that answers is not asked: %d requests, error %v", c.read(), err)
	}
	c.answers(apierrors.NewServiceUnavailable("away"), "")
	if _, _, err := c.check(t.Context()); err == nil {
		t.Error("neither a renewal nor the check is answered, and the check succeeds")
	}
}

// watched is a target that a loop watches.
type watched struct {
	*checked
	loop  *loop
	lost  *atomic.Int32
	start func()
	done  chan struct{} // closed when the loop watches no more
}

// newWatched returns a target that a loop watches from start on, until ctx ends.
func newWatched(ctx context.Context, t *testing.T) *watched {
	t.Helper()
	c, lost := newChecked(t, false), &atomic.Int32{}
	c.options.Registry = engage.NewRegistry(onLoss(func() { lost.Add(1) }))
	c.options.Scheme = clientgoscheme.Scheme
	key := types.NamespacedName{Name: "c2"}
	w := &watched{checked: c, loop: newLoop(c.connections, key, c.refuser, nil), lost: lost, done: make(chan struct{})}
	asIs := func(_ context.Context, _ types.NamespacedName, c *rest.Config, _ wire.Dial) (*rest.Config, error) {
		return c, nil
	}
	d, err := w.loop.dial(ctx, c.refuser, asIs, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	w.loop.engaged, c.dialer = c.engagement, d
	c.rest, c.end = func() {}, func() {}
	if err := c.options.Registry.Engage(t.Context(), c.target); err != nil {
		t.Fatal(err)
	}
	w.start = func() {
		others := w.clock.Waiters()
		go func() {
			defer close(w.done)
			w.loop.watch(ctx, c.refuser)
		}()
		waittest.Eventually(t, "the two tickers of the watch", func() bool { return w.clock.Waiters() >= others+2 })
	}
	return w
}

// check has a health check done.
func (w *watched) check(t *testing.T) {
	t.Helper()
	before := w.read()
	w.clock.Step(healthInterval)
	waittest.Eventually(t, "a health check", func() bool { return w.read() > before })
}

func (w *watched) reason() string { return w.loop.findingAbout(w.refuser).condition.Reason }

func TestATargetIsLostAfterMissesInARow(t *testing.T) {
	w := newWatched(t.Context(), t)
	w.start()
	away := apierrors.NewServiceUnavailable("away")
	w.check(t)
	waittest.Eventually(t, "it is connected", func() bool { return w.reason() == v1alpha1.ReasonConnected })
	for range 3 {
		for range minMisses {
			w.answers(away, "")
			w.check(t)
		}
		w.answers(nil, "c2")
		w.check(t)
	}
	if w.lost.Load() > 0 || w.reason() != v1alpha1.ReasonConnected {
		t.Fatalf("lost %d times, %s", w.lost.Load(), w.reason())
	}
	w.answers(away, "")
	for range deadAfter/healthInterval + 1 {
		w.check(t)
	}
	waittest.Eventually(t, "it is lost", func() bool {
		return w.lost.Load() > 0 && w.reason() == v1alpha1.ReasonUnreachable
	})
	w.answers(nil, "c2")
	w.check(t)
	waittest.Receive(t, "the end of the watch, so that the target is engaged anew", w.done)
}

func TestAWatchEndsWhenTheTargetMustBeEngagedAnew(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *watched, cancel func())
		checks bool // A check notices it.
		gone   bool // The target is not in the Registry any more.
	}{
		"another cluster answers": {
			change: func(w *watched, _ func()) { w.answers(nil, "c3") }, checks: true, gone: true,
		},
		"the cache may not watch any more": {checks: true, change: func(w *watched, _ func()) {
			w.watchError.Store(new(error(apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("podchaperons").
				GroupResource(), "", nil))))
		}},
		"nobody wants it any more": {change: func(_ *watched, cancel func()) { cancel() }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := newWatched(ctx, t)
			w.start()
			w.check(t)
			test.change(w, cancel)
			if test.checks {
				w.check(t)
			}
			waittest.Receive(t, "the end of the watch", w.done)
			if _, there := w.options.Registry.ByKey(w.target.Key); there == test.gone {
				t.Errorf("the target is in the Registry: %t", there)
			}
			if fine := w.loop.lastFine; test.checks && !test.gone && !fine.Equal(w.clock.Now()) {
				t.Errorf("its last check was %s ago", w.clock.Since(fine))
			}
		})
	}
}

func TestNothingIsLookedForWhileHealthChecksFail(t *testing.T) {
	for name, own := range map[string]types.NamespacedName{
		"the Lease of the manager": {Namespace: "admiralty", Name: "us"},
		"a Lease of ours":          {},
	} {
		w, asked := newWatched(t.Context(), t), 0
		count := func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			asked++
			return nil
		}
		w.leases = leases{own: own, client: fakeOf(t, interceptor.Funcs{Get: count})}
		before := w.asked.Load()
		w.loop.doubts = 1
		w.clock.Step(time.Hour)
		w.loop.look(t.Context(), w.refuser)
		if asked += int(w.asked.Load() - before); asked > 0 {
			t.Errorf("%s: %d requests", name, asked)
		}
		w.loop.doubts = 0
		w.clock.Step(time.Hour)
		w.loop.look(t.Context(), w.refuser)
		if asked += int(w.asked.Load() - before); asked == 0 {
			t.Errorf("%s: nothing is looked for, although the target answers", name)
		}
	}
}

func TestAPenaltyIsForgottenAfterTwiceItsTime(t *testing.T) {
	const penalty = 2 * healthInterval
	// The fifth check ends the penalty. It has done so when the sixth begins.
	for checks, want := range map[int]time.Duration{4: penalty, 6: 0} {
		ctx, cancel := context.WithCancel(t.Context())
		w := newWatched(ctx, t)
		w.loop.penalty = penalty
		w.start()
		for range checks {
			w.check(t)
		}
		cancel()
		waittest.Receive(t, "the end of the watch", w.done)
		if w.loop.penalty != want {
			t.Errorf("after %d checks, the penalty is %s", checks, w.loop.penalty)
		}
	}
}
