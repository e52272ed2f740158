package target

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
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
		end := l.engaged.endOfHold()
		l.engaged.hold.Release(t.Context(), false)
		if got := l.await(ctx, f.refuser, nil, nil, &end); got != want || !end.seen {
			t.Errorf("after %d misses: a check is due: %t, the right has ended: %t", misses, got, end.seen)
		}
		if ctx.Err() == nil {
			t.Errorf("after %d misses: nobody hears that the target is out of reach", misses)
		}
		if target := l.engaged.target; target.Reachable() || target.Lost() {
			t.Errorf("after %d misses: reachable: %t, lost: %t", misses, target.Reachable(), target.Lost())
		}
	}
}
