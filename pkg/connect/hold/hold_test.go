package hold

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

var leaseKey = types.NamespacedName{Namespace: "leases", Name: "source-1"}

// etcd is the Lease of the leader of one source cluster. A copy of it is a copy of the cluster.
type etcd struct{ next string }

func (e *etcd) NextHolder(context.Context) (string, error) { return e.next, nil }

func (e *etcd) SetNextHolder(_ context.Context, holder string) error {
	e.next = holder
	return nil
}

// world is a target, and the time, which passes only while everybody waits.
type world struct {
	*testing.T
	clock  clock.RealClock
	target client.Client
	// down fails requests to the target. hangs lets them wait until they give up.
	down, hangs atomic.Bool
	// gaveUp is when a write that hung gave up last, in nanoseconds.
	gaveUp atomic.Int64
	// latency is how long the target takes for an answer, in nanoseconds. It does what it is asked for at the end.
	latency atomic.Int64
}

// in runs a test in a world of its own.
func in(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	answer := func(ctx context.Context, then func() error) error {
		if w.down.Load() {
			return errors.New("down")
		}
		if w.hangs.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		select {
		case <-time.After(time.Duration(w.latency.Load())):
		case <-ctx.Done():
			return ctx.Err()
		}
		return then()
	}
	w.target = fake.NewClientBuilder().WithScheme(scheme).WithObjects(emptyLease("uid")).WithInterceptorFuncs(
		interceptor.Funcs{
			Get: func(
				ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption,
			) error {
				return answer(ctx, func() error { return c.Get(ctx, key, o) })
			},
			Update: func(
				ctx context.Context, c client.WithWatch, o client.Object, _ ...client.UpdateOption,
			) error {
				err := answer(ctx, func() error { return c.Update(ctx, o) })
				if err != nil {
					w.gaveUp.Store(w.clock.Now().UnixNano())
				}
				return err
			},
		}).Build()
	return w
}

func emptyLease(uid types.UID) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: leaseKey.Namespace, Name: leaseKey.Name, UID: uid,
	}}
}

// process starts a manager of the cluster with this etcd.
func (w *world) process(name string, e *etcd) *Process {
	return New(Options{ClusterID: "c1", Name: name, Clock: w.clock, OwnLease: e})
}

func (w *world) leader(name string, e *etcd) *Process {
	p := w.process(name, e)
	p.Lead()
	return p
}

func (w *world) request() Request {
	return Request{Target: types.NamespacedName{Name: "c2"}, Client: w.target, Lease: leaseKey}
}

// attempt is the result of Acquire.
type attempt struct {
	hold *Hold
	err  error
}

// acquire begins to acquire the Lease.
func (w *world) acquire(p *Process, r Request) chan attempt {
	result := make(chan attempt, 1)
	go func() {
		h, err := p.Acquire(w.Context(), w.Context(), r)
		result <- attempt{h, err}
	}()
	return result
}

// hold acquires the Lease at once.
func (w *world) hold(p *Process, r Request) *Hold {
	w.Helper()
	begun := w.clock.Now()
	a := <-w.acquire(p, r)
	if a.err != nil {
		w.Fatal(a.err)
	}
	if took := w.clock.Since(begun); took > 0 {
		w.Errorf("taking the Lease takes %s", took)
	}
	return a.hold
}

// pass lets time pass, until done.
func (w *world) pass(d time.Duration, done func() bool) time.Duration {
	begun := w.clock.Now()
	for w.clock.Since(begun) < d && !done() {
		time.Sleep(time.Second) //nolint:forbidigo // This is the time of the bubble.
		synctest.Wait()
	}
	return w.clock.Since(begun)
}

func never() bool { return false }

// crash makes a hold's process disappear.
func crash(h *Hold) { h.end(errors.New("crash")) }

func (w *world) read() *coordinationv1.Lease {
	w.Helper()
	lease := &coordinationv1.Lease{}
	if err := w.target.Get(w.Context(), leaseKey, lease); err != nil {
		w.Fatal(err)
	}
	return lease
}

func TestTheNextLeaderTakesOverAtOnceAfterAnOrderlyStop(t *testing.T) {
	in(t, func(w *world) {
		c1, backup := &etcd{}, &etcd{}
		first := w.leader("a", c1)
		h := w.hold(first, w.request())
		*backup = *c1
		if err := first.Stop(w.Context()); err != nil {
			w.Fatal(err)
		}
		h.Release(w.Context(), true)

		copied := w.acquire(w.leader("copy", backup), w.request())
		next := w.hold(w.leader("b", c1), w.request())
		expectHolder(w, "b_")
		w.pass(time.Minute, never)
		if err := context.Cause(next.Context()); err != nil {
			w.Errorf("the next leader lost it: %v", err)
		}
		if a := <-copied; !errors.As(a.err, new(*OtherError)) {
			w.Errorf("a copy of before the stop: %v", a.err)
		}
	})
}

func expectHolder(w *world, prefix string) {
	w.Helper()
	if holder := holderOf(w.read()); !strings.HasPrefix(holder, prefix) {
		w.Errorf("the holder is %q, want %q", holder, prefix)
	}
}

func TestAConfirmationDoesNotOutliveItsContext(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		w.hangs.Store(true)
		w.pass(timeouts.HoldRenewal+time.Second, never) // A renewal is under way.
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		begun := w.clock.Now()
		if err := h.Confirm(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("got %v", err)
		}
		if took := w.clock.Since(begun); took > time.Second {
			w.Errorf("it took %s", took)
		}
	})
}

func TestACrashIsWaitedForOnce(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		h := w.hold(w.leader("a", c1), w.request())
		standby := w.process("b", c1)
		w.pass(time.Minute, func() bool { standby.Watch(w.request().Target, w.read()); return false })
		crash(h)
		// The leader election takes as long as this.
		w.pass(timeouts.LeaseDuration, func() bool { standby.Watch(w.request().Target, w.read()); return false })
		standby.Lead()
		w.hold(standby, w.request())
		expectHolder(w, "b_")
	})
}

func TestANewProcessWaitsAfterACrash(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		crash(w.hold(w.leader("a", c1), w.request()))
		next := w.acquire(w.leader("b", c1), w.request())
		took := w.pass(time.Minute, func() bool { return len(next) > 0 })
		if a := <-next; a.err != nil {
			w.Error(a.err)
		}
		if took < timeouts.HoldDuration || took > timeouts.HoldDuration+lookInterval+time.Second {
			w.Errorf("it took over after %s", took)
		}
	})
}

func TestACopyOfTheClusterDoesNotPassForTheNextLeader(t *testing.T) {
	in(t, func(w *world) {
		c1 := &etcd{}
		h := w.hold(w.leader("a", c1), w.request())
		copied := w.leader("copy", &etcd{next: c1.next})
		try := func() error {
			result := w.acquire(copied, w.request())
			w.pass(time.Minute, func() bool { return len(result) > 0 })
			return (<-result).err
		}
		if err := try(); !errors.As(err, new(*OtherError)) {
			w.Fatalf("while the cluster runs: %v", err)
		}
		crash(h)
		w.pass(4*timeouts.HoldDuration, never)
		if err := try(); !errors.As(err, new(*OtherError)) {
			w.Fatalf("after the leader crashed: %v", err)
		}
		expectHolder(w, "a_")
		next := w.hold(w.leaderAfter("b", c1), w.request())
		expectHolder(w, "b_")
		crash(next)
		_ = try()
		w.pass(timeouts.HoldOfOthers, never)
		if err := try(); err != nil {
			w.Errorf("long after the cluster ended: %v", err)
		}
	})
}

// leaderAfter returns a leader that has watched the Lease for long.
func (w *world) leaderAfter(name string, e *etcd) *Process {
	p := w.process(name, e)
	p.Watch(w.request().Target, w.read())
	w.pass(timeouts.LeaseDuration, never)
	p.Lead()
	return p
}

func TestAHoldEndsBeforeAnotherCanTakeTheLease(t *testing.T) {
	in(t, func(w *world) {
		h := w.hold(w.leader("a", &etcd{}), w.request())
		w.pass(time.Minute, never)
		if h.Context().Err() != nil || h.Failed() != nil {
			w.Fatalf("it was not renewed: %v, %v", context.Cause(h.Context()), h.Failed())
		}
		w.down.Store(true)
		took := w.pass(time.Minute, func() bool { return h.Context().Err() != nil })
		if took > timeouts.HoldEnds+time.Second || !errors.Is(context.Cause(h.Context()), errLapsed) {
			w.Errorf("it ended after %s: %v", took, context.Cause(h.Context()))
		}
	})
}

func TestTheLeaseIsLostToAnotherCluster(t *testing.T) {
	in(t, func(w *world) {
		first := w.leader("a", &etcd{})
		h := w.hold(first, w.request())
		stolen := renewal{holder: "copy", clusterID: "c1", epoch: h.Epoch() + 1, now: w.clock.Now()}.write(w.read())
		if err := w.target.Update(w.Context(), stolen); err != nil {
			w.Fatal(err)
		}
		w.pass(timeouts.HoldRenewal+time.Second, func() bool { return h.Context().Err() != nil })
		if cause := context.Cause(h.Context()); !errors.As(cause, new(*OtherError)) {
			w.Errorf("it ended by %v", cause)
		}
		if a := <-w.acquire(first, w.request()); !errors.As(a.err, new(*OtherError)) {
			w.Errorf("it is to wait, and got %v", a.err)
		}
	})
}

func TestSiblingsShareTheLease(t *testing.T) {
	in(t, func(w *world) {
		p := w.leader("a", &etcd{})
		one, two := w.request(), w.request()
		two.Target.Name = "sibling"
		first := w.hold(p, one)
		second := w.hold(p, two)
		w.pass(time.Minute, never)
		for _, h := range []*Hold{first, second} {
			if err := context.Cause(h.Context()); err != nil {
				w.Error(err)
			}
		}
	})
}

func TestSourcesOfAnotherClusterIDAreNotKeptWaiting(t *testing.T) {
	in(t, func(w *world) {
		w.hold(w.leader("a", &etcd{}), w.request())
		other := New(Options{ClusterID: "c9", Name: "other", Clock: w.clock})
		other.Lead()
		if a := <-w.acquire(other, w.request()); !errors.As(a.err, new(*SharedUserError)) {
			w.Errorf("got %v", a.err)
		}
	})
}

func TestARenewalCountsForTheWholeCluster(t *testing.T) {
	in(t, func(w *world) {
		p, sibling := w.leader("a", &etcd{}), types.NamespacedName{Name: "c2-too"}
		led, r := w.clock.Now(), w.request()
		r.Cluster = "id-of-c2"
		h := w.hold(p, r)
		w.pass(time.Minute, never)
		h.Release(w.Context(), false)
		p.Forget(r.Target) // It is deleted.
		for cluster, want := range map[string]time.Time{"id-of-c2": p.LastSent(r.Target, ""), "another": led, "": led} {
			if sent := p.LastSent(sibling, cluster); !sent.Equal(want) {
				w.Errorf("to a sibling in cluster %q: %s, want %s", cluster, sent, want)
			}
		}
	})
}

func TestARenewalThatIsNotAnsweredMayHaveArrived(t *testing.T) {
	in(t, func(w *world) {
		p := w.process("a", &etcd{})
		target := w.request().Target
		if sent := p.LastSent(target, ""); !sent.IsZero() {
			w.Errorf("before it leads: %s", sent)
		}
		p.Lead()
		led := w.clock.Now()
		if sent := p.LastSent(target, ""); !sent.Equal(led) {
			w.Errorf("before it holds the Lease: %s, want %s", sent, led)
		}
		w.hold(p, w.request())
		w.pass(time.Minute, never)
		w.hangs.Store(true)
		lost := w.clock.Now()
		w.pass(time.Hour, never)
		sent := p.LastSent(target, "")
		if sent.Before(lost) || sent.After(lost.Add(timeouts.HoldEnds)) {
			w.Errorf("the last one was sent %s after the loss", sent.Sub(lost))
		}
		if gaveUp := time.Unix(0, w.gaveUp.Load()); sent.Before(gaveUp) { // It may have waited for a connection.
			w.Errorf("the last one was sent %s before it gave up", gaveUp.Sub(sent))
		}
		p.Forget(target)
		if !p.LastSent(target, "").Equal(sent) {
			w.Error("it is forgotten with the target")
		}
	})
}
