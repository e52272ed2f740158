package target

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// held returns a hold of a Lease in a target. Its renewals fail while broken is true.
func held(t *testing.T, f fixture, key types.NamespacedName, broken *atomic.Bool) *hold.Hold {
	t.Helper()
	funcs := interceptor.Funcs{Update: func(
		ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption,
	) error {
		if broken.Load() {
			return errAway
		}
		return c.Update(ctx, o, options...)
	}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "us", UID: "1"}}
	process := hold.New(hold.Options{ClusterID: "us", Name: "manager", Clock: f.clock})
	process.Lead()
	held, err := process.Acquire(t.Context(), t.Context(), hold.Request{
		Target: key, Client: fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(funcs).Build(),
		Lease: client.ObjectKeyFromObject(lease),
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

var errAway = errors.New("the API server is away")

// onLoss is an observer of targets that are lost.
type onLoss func()

func (onLoss) Engaged(context.Context, *engage.Target) error { return nil }

func (f onLoss) Lost(*engage.Target) { f() }

// Between the end of a hold and the next tick there may be eight seconds.
func TestTheEndOfAHoldIsAReasonToCheck(t *testing.T) {
	for misses, want := range map[int]bool{0: true, 1: false, 2: true} {
		f := newFixture(t, http.StatusServiceUnavailable)
		key := types.NamespacedName{Name: "c2"}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f.options.Registry = engage.NewRegistry(onLoss(cancel))
		l := newLoop(f.connections, key, f.refuser, nil)
		l.engaged = &engagement{
			target: &engage.Target{Key: key}, hold: held(t, f, key, &atomic.Bool{}), identity: identity.New(""),
		}
		if err := l.options.Registry.Engage(t.Context(), l.engaged.target); err != nil {
			t.Fatal(err)
		}
		l.doubts = misses
		ends := right{ends: l.engaged.rightEnds()}
		l.engaged.hold.Release(t.Context(), false)
		if got := l.await(ctx, f.refuser, nil, nil, &ends); got != want || !ends.lapsed {
			t.Errorf("after %d misses: a check is due: %t, the right has ended: %t", misses, got, ends.lapsed)
		}
		if ctx.Err() == nil {
			t.Errorf("after %d misses: the target is not lost", misses)
		}
	}
}

// checked is an engagement whose ClusterSummary is read from a fake API server.
type checked struct {
	*engagement

	clock  *testclock.FakeClock
	broken *atomic.Bool // The hold is not renewed.
	reads  int
	// answer is what the API server says. tells is the cluster ID that it tells.
	answer error
	tells  string
}

func newChecked(t *testing.T, holds bool) *checked {
	t.Helper()
	f := newFixture(t, http.StatusServiceUnavailable)
	c := &checked{clock: f.clock, broken: &atomic.Bool{}, tells: "c2"}
	key := types.NamespacedName{Name: "c2"}
	reader := fakeOf(t, interceptor.Funcs{Get: func(
		_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption,
	) error {
		c.reads++
		if summary, ok := o.(*v1alpha1.ClusterSummary); ok {
			summary.Labels, summary.Status.ClusterID = map[string]string{"zone": "a"}, c.tells
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
			if c.reads != want {
				t.Errorf("%d reads of the ClusterSummary, want %d", c.reads, want)
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
		tells        string // another cluster
		self         bool
		invalid      bool
		want         error
		other        bool
	}{
		"it answers":                                 {},
		"it answers, and its Lease is renewed":       {holds: true},
		"it is busy":                                 {answer: busy, want: busy},
		"it is busy, and its Lease is renewed":       {holds: true, answer: busy},
		"it is busy, and its Lease is overdue":       {holds: true, overdue: true, answer: busy, want: busy},
		"it is busy, and has never answered":         {holds: true, first: true, answer: busy, want: busy},
		"it refuses us, although it renews":          {holds: true, answer: refused, want: refused},
		"its ClusterSummary is a lie":                {answer: forged, invalid: true},
		"another cluster answers":                    {tells: "c3", other: true},
		"another cluster answers with a lie":         {tells: "c3", answer: forged, invalid: true, other: true},
		"the source itself may tell anything":        {tells: "c3", self: true},
		"an error says nothing about what cluster":   {tells: "c3", answer: busy, want: busy},
		"it tells nothing, and renewals go on there": {holds: true, tells: "c3", answer: busy},
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
			c.answer = test.answer
			if test.tells != "" {
				c.tells = test.tells
			}
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

func TestAnOverdueRenewalIsAFailedCheck(t *testing.T) {
	c := newChecked(t, true)
	if _, _, err := c.check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.check(t.Context()); err != nil || !c.renewed() {
		t.Errorf("renewals go on: error %v", err)
	}
	c.overdue()
	if _, _, err := c.check(t.Context()); err == nil || c.renewed() {
		t.Error("the Lease is overdue, and the check succeeds")
	}
	if c.reads > 1 {
		t.Errorf("%d reads of the ClusterSummary", c.reads)
	}
}
