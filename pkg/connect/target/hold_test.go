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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// held returns a hold of a Lease in a target. Its renewals fail while broken is true.
func held(t *testing.T, f fixture, key types.NamespacedName, broken *atomic.Bool) *hold.Hold {
	t.Helper()
	held, _ := heldIn(t, f, key, broken)
	return held
}

// leaseOfOurs is the Lease of a hold.
var leaseOfOurs = types.NamespacedName{Namespace: "admiralty", Name: "us"}

// heldIn returns the target, too.
func heldIn(
	t *testing.T, f fixture, key types.NamespacedName, broken *atomic.Bool,
) (*hold.Hold, client.Client) {
	t.Helper()
	funcs := interceptor.Funcs{Update: func(
		ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption,
	) error {
		if broken.Load() {
			return errAway
		}
		return c.Update(ctx, o, options...)
	}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: leaseOfOurs.Namespace, Name: leaseOfOurs.Name, UID: "1",
	}}
	there := fake.NewClientBuilder().WithObjects(lease).WithInterceptorFuncs(funcs).Build()
	process := hold.New(hold.Options{ClusterID: "us", Name: "manager", Clock: f.clock})
	process.Lead()
	held, err := process.Acquire(t.Context(), t.Context(), hold.Request{
		Target: key, Client: there, Lease: leaseOfOurs,
	})
	if err != nil {
		t.Fatal(err)
	}
	return held, there
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

// Another Secret ends the watch of a target. Its hold may end while it is connected to.
func TestAHoldThatEndsWhileATargetIsConnectedToPutsItOutOfReach(t *testing.T) {
	f := newFixture(t, http.StatusServiceUnavailable)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.options.Registry = engage.NewRegistry(onLoss(cancel))
	w := f.refuser
	w.wasConnected = true
	l := newLoop(f.connections, keyC2, w, nil)
	l.engaged = &engagement{
		target: &engage.Target{Key: keyC2}, hold: held(t, f, keyC2, &atomic.Bool{}), identity: identity.New(""),
	}
	target := l.engaged.target
	if err := l.options.Registry.Engage(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	l.engaged.hold.Release(t.Context(), false)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.keep(ctx, t.Context(), w)
	}()
	waittest.Receive(t, "the end of the attempts: somebody heard that it is out of reach", ended)
	if target.Reachable() || target.Lost() {
		t.Errorf("reachable: %t, lost: %t", target.Reachable(), target.Lost())
	}
}

func TestAManagerThatActsThereMakesFencingDoubtful(t *testing.T) {
	for name, notices := range map[string]func(*testing.T, *loop, want) want{
		"it is watched": func(t *testing.T, l *loop, w want) want {
			t.Helper()
			end := l.engaged.endOfHold()
			if l.await(t.Context(), w, nil, nil, &end) {
				t.Error("the target is to be watched further")
			}
			return w
		},
		"it is connected to with other credentials": func(t *testing.T, l *loop, w want) want {
			t.Helper()
			next := w
			next.fingerprint = "next"
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				l.keep(ctx, t.Context(), next)
			}()
			waittest.Eventually(t, "something is reported", func() bool { return l.findingAbout(next) != (finding{}) })
			cancel()
			waittest.Receive(t, "the end of the attempts", ended)
			return next
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, http.StatusServiceUnavailable)
			l := newLoop(f.connections, keyC2, f.refuser, nil)
			l.fencing = fencingHolds
			l.engaged = &engagement{target: &engage.Target{Key: keyC2}, identity: identity.New("")}
			l.engaged.hold = takenOver(t, f)
			if err := l.options.Registry.Engage(t.Context(), l.engaged.target); err != nil {
				t.Fatal(err)
			}
			l.engaged.target.SetFences(true)
			is := connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")
			l.report(t.Context(), f.refuser, finding{condition: is})
			w := notices(t, l, f.refuser)
			if found := l.findingAbout(w); found.fencing != fencingDoubtful || found.condition != is {
				t.Errorf("the next leader hears that fencing is %d, with %+v", found.fencing, found.condition)
			}
			l.fencing = l.fencing.after(v1alpha1.ReasonUnreachable, l.engaged) // It stops answering just then.
			if is := ptr.Deref(l.fencing.write(v1alpha1.TargetStatus{Fences: ptr.To(true)}), true); is {
				t.Error("this source still relies on the target's fencing")
			}
		})
	}
}

// takenOver returns a hold on c2 that has ended because another manager acts there.
func takenOver(t *testing.T, f fixture) *hold.Hold {
	t.Helper()
	held, there := heldIn(t, f, keyC2, &atomic.Bool{})
	lease := &coordinationv1.Lease{}
	if err := there.Get(t.Context(), leaseOfOurs, lease); err != nil {
		t.Fatal(err)
	}
	lease.Spec.HolderIdentity = ptr.To("another")
	lease.Annotations[v1alpha1.AnnotationEpoch] = "7"
	if err := there.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := held.Confirm(t.Context()); !errors.As(err, new(*hold.OtherError)) {
		t.Fatalf("error %v", err)
	}
	return held
}
