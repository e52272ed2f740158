package placement

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// busyServer is an API server that does all of its requests at the same time, so each takes longer the more there are.
type busyServer struct {
	requests, underWay atomic.Int32
	most               atomic.Int32
	// each is the work of one request: the time that it takes alone.
	each time.Duration
}

func (s *busyServer) create(ctx context.Context, _ client.WithWatch, _ client.Object, _ ...client.CreateOption) error {
	const slices = 10
	s.requests.Add(1)
	s.most.Store(max(s.most.Load(), s.underWay.Add(1)))
	defer s.underWay.Add(-1)
	for range slices {
		select {
		case <-time.After(s.each / slices * time.Duration(s.underWay.Load())):
		case <-ctx.Done():
			return ctx.Err() // What was done for it is lost.
		}
	}
	return nil
}

// burst places as many pods at once in a target with this server, and returns their errors.
func burst(t *testing.T, w *world, pods int, at *Target) []error {
	t.Helper()
	errs := make([]error, pods)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			_, errs[i] = w.ensureChaperon(t.Context(), newPod(types.UID(rune('a'+i)), nil), at, nil)
		})
	}
	all.Wait()
	return errs
}

// TestABurstDoesNotDrownATarget has pods whose PodChaperons take the target 19 s together. If all were asked for at the
// same time, none would be answered within the 10 s of a request.
func TestABurstDoesNotDrownATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, server := newWorld(), &busyServer{each: 50 * time.Millisecond}
		w.Placer.clock = clock.RealClock{}
		const pods = 380
		start := time.Now()
		at := w.engage(t, "c1", interceptor.Funcs{Create: server.create})
		for _, err := range burst(t, w, pods, at) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if asked := server.requests.Load(); asked != pods {
			t.Errorf("%d requests for %d pods", asked, pods)
		}
		if most := server.most.Load(); most != creationsAtOnce {
			t.Errorf("up to %d requests were under way, want %d", most, creationsAtOnce)
		}
		if took, work := time.Since(start), pods*server.each; took > work+time.Second {
			t.Errorf("took %s, want %s: the target was idle meanwhile", took, work)
		}
	})
}

// fill takes all turns of a target.
func fill(at *Target) {
	for range creationsAtOnce {
		at.turns <- struct{}{}
	}
}

// engageBusy engages c1, which has all its turns taken, and refuses what it is asked for.
func (w *world) engageBusy(t *testing.T) (at *Target, asked *atomic.Bool) {
	t.Helper()
	asked = &atomic.Bool{}
	at = w.engage(t, "c1", interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			asked.Store(true)
			return apierrors.NewForbidden(podChaperons, "web", errors.New("no"))
		},
	})
	fill(at)
	return at, asked
}

func TestAPodThatIsGoneWaitsForNoTurn(t *testing.T) {
	const after = time.Second
	for _, gone := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, left := newWorld(), creationsAtOnce
			w.Placer.clock = clock.RealClock{}
			at, asked := w.engageBusy(t)
			comes := func() { <-at.turns }
			if gone {
				comes = func() { w.Delegates.Concluded("p", ProxyGone) }
			} else {
				left--
			}
			time.AfterFunc(after, comes)
			start := time.Now()
			err := w.place(t.Context(), newPod("p", nil), at)
			if took := time.Since(start); took != after || len(at.turns) != left {
				t.Errorf("gone: %t: took %s, %d turns are taken at the end, want %d", gone, took, len(at.turns), left)
			}
			if asked.Load() == gone || errors.As(err, new(*ConcludedError)) != gone {
				t.Errorf("gone: %t: the PodChaperon was asked for: %t; error %v", gone, asked.Load(), err)
			}
		})
	}
}

func TestAFullQueueDelaysNoOtherTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, start := newWorld(), time.Now()
		w.engageBusy(t)
		_, err := w.ensureChaperon(t.Context(), newPod("p", nil), w.engage(t, "c2", interceptor.Funcs{}), nil)
		if took := time.Since(start); err != nil || took != 0 {
			t.Errorf("took %s: %v", took, err)
		}
	})
}

// TestATargetsTimeDoesNotPassBeforeItIsAsked has a turn that comes after the target's whole time.
func TestATargetsTimeDoesNotPassBeforeItIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const turn = 15 * time.Second
		w := newWorld()
		w.Placer.clock, w.timeout = clock.RealClock{}, 10*time.Second
		start, withdrawn := time.Now(), time.Duration(0)
		at := w.engage(t, "c1", server{ask: func() error {
			withdrawn = time.Since(start)
			return nil
		}}.funcs())
		fill(at)
		time.AfterFunc(turn, func() { <-at.turns })
		_, err := w.Place(t.Context(), newPod("p", nil), at, Expectation{Since: start, Waiting: func(Wait, string) {}})
		if want := turn + w.timeout; withdrawn != want {
			t.Errorf("withdrawn after %s, want %s: %v", withdrawn, want, err)
		}
	})
}

func TestAnotherDelegateThatRunsIsSeenAfterTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.Placer.clock = clock.RealClock{}
		other := w.engage(t, "c2", interceptor.Funcs{})
		at, asked := w.engageBusy(t)
		time.AfterFunc(time.Second, func() {
			w.Delegates.Seen(other, newChaperon("c", "p", inPhase(corev1.PodRunning)))
			<-at.turns
		})
		err := w.place(t.Context(), newPod("p", nil), at)
		if asked.Load() || !strings.Contains(message(err), "is scheduled in c2") {
			t.Errorf("the PodChaperon was asked for: %t; error %v", asked.Load(), err)
		}
	})
}

// TestAPodWaitsForItsTurnWhileItMayCome has a target that answers no request, and pods that are in a queue for it.
func TestAPodWaitsForItsTurnWhileItMayCome(t *testing.T) {
	const waiting = creationsAtOnce + 3
	slow := "c1: no turn within 20s: PodChaperons of other pods are still being created there, 32 at a time"
	for name, test := range map[string]struct {
		during func(w *world, at *Target, stop, disengage func()) // 5 s after the burst
		after  time.Duration
		err    string
		asked  int32 // of those that wait
	}{
		"it never comes": {after: timeouts.CreationTurn, err: slow},
		"the target is out of reach": {
			during: func(w *world, at *Target, _, _ func()) { w.registry.Lapse(at.Target) },
			after:  timeouts.Request, err: "creating the PodChaperon in c1: the target is out of reach",
		},
		"the target is disengaged": {
			during: func(_ *world, _ *Target, _, disengage func()) { disengage() },
			after:  5 * time.Second, err: "placing the delegate in c1: it was disconnected",
		},
		"the manager ends": {
			during: func(_ *world, _ *Target, stop, _ func()) { stop() },
			after:  5 * time.Second, err: "the manager ends",
		},
		"the others give up": {after: timeouts.Request, asked: waiting},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, asked := newWorld(), atomic.Int32{}
				w.Placer.clock = clock.RealClock{}
				at := w.engage(t, "c1", interceptor.Funcs{
					Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
						asked.Add(1)
						return nil
					},
				})
				engagement, disengage := context.WithCancel(t.Context())
				defer disengage()
				at.engagement = engagement
				fill(at)
				if test.after < timeouts.CreationTurn {
					time.AfterFunc(timeouts.Request, func() {
						for range creationsAtOnce {
							<-at.turns
						}
					})
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.during != nil {
					stop := func() { cancel(errors.New("the manager ends")) }
					time.AfterFunc(5*time.Second, func() { test.during(w, at, stop, disengage) })
				}
				start := time.Now()
				var all sync.WaitGroup
				for i := range waiting {
					all.Go(func() {
						_, err := w.ensureChaperon(ctx, newPod(types.UID(rune('a'+i)), nil), at, nil)
						if took := time.Since(start); message(err) != test.err || took != test.after {
							t.Errorf("after %s: error %q, want %q after %s", took, message(err), test.err, test.after)
						}
					})
				}
				all.Wait()
				if got := asked.Load(); got != test.asked {
					t.Errorf("%d pods were asked for, want %d", got, test.asked)
				}
			})
		})
	}
}
