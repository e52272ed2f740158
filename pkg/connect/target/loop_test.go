package target

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// fixture is connections whose changes are reported on a channel, and a target that refuses everyone, with an HTTP
// status.
type fixture struct {
	*connections
	clock   *testclock.FakeClock
	changes chan types.NamespacedName
	refuser want
	asked   *atomic.Int32
	// events are those that were recorded.
	events chan string
}

func newFixture(t *testing.T, status int) fixture {
	t.Helper()
	f := fixture{
		clock:   testclock.NewFakeClock(time.Now()),
		changes: make(chan types.NamespacedName, 100),
		asked:   &atomic.Int32{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	f.refuser = want{fingerprint: "refuser", config: &rest.Config{Host: server.URL}}
	recorder := events.NewFakeRecorder(10)
	f.events = recorder.Events
	f.connections = newConnections(Options{
		Recorder: recorder, Client: fakeOf(t, interceptor.Funcs{}),
		Scheme: runtime.NewScheme(), Registry: engage.NewRegistry(), Clock: f.clock, Addresses: ownAddress{},
		Verifier: func() (gate.Verifier, error) { return nil, nil }, //nolint:nilnil // no target is reached
	}, func(key types.NamespacedName) { f.changes <- key })
	return f
}

func (f fixture) next(t *testing.T) types.NamespacedName {
	t.Helper()
	return waittest.Receive(t, "what was found out", f.changes)
}

// steps moves the clock whenever somebody waits for it, until something is done.
func (f fixture) steps(t *testing.T, what string, done func() bool) {
	t.Helper()
	waittest.Eventually(t, what, func() bool {
		if !done() && f.clock.HasWaiters() {
			f.clock.Step(time.Minute)
		}
		return done()
	})
}

func TestALoopTriesAgainAfterAWhileAndReportsWhatIsNewsOnly(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	key := types.NamespacedName{Name: "c2"}
	f.set(t.Context(), key, f.refuser, nil)
	if got := f.next(t); got != key {
		t.Fatalf("a change of %s", got)
	}
	if found := f.findingAbout(key, f.refuser); found.condition.Reason != v1alpha1.ReasonUnauthorized {
		t.Errorf("found %+v", found)
	}
	f.steps(t, "it has tried three times", func() bool { return f.asked.Load() >= 3 })
	if len(f.changes) > 1 { // One says that the target answers in time, whatever it answers.
		t.Error("the same was reported again")
	}
}

func TestATargetIsUnreachableOnlyAfterSeveralMisses(t *testing.T) {
	f := newFixture(t, http.StatusServiceUnavailable)
	key := types.NamespacedName{Name: "c2"}
	f.set(t.Context(), key, f.refuser, nil)
	for miss := int32(1); miss < maxMisses; miss++ {
		waittest.Eventually(t, "it has tried, and waits", func() bool {
			return f.asked.Load() >= miss && f.clock.HasWaiters()
		})
		if found := f.findingAbout(key, f.refuser); found != (finding{}) {
			t.Fatalf("after %d misses: found %+v", miss, found)
		}
		f.clock.Step(time.Minute)
	}
	f.next(t)
	if found := f.findingAbout(key, f.refuser); found.condition.Reason != v1alpha1.ReasonUnreachable {
		t.Errorf("found %+v", found)
	}
}

// The API server of a target may restart while a new leader begins.
func TestATargetThatWasConnectedIsLostAsLateAsAWatchedOne(t *testing.T) {
	for name, config := range map[string]func(fixture) *rest.Config{
		"it answers that it cannot": func(f fixture) *rest.Config { return f.refuser.config },
		"it refuses connections": func(fixture) *rest.Config {
			return &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", porttest.Free(t))}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, http.StatusServiceUnavailable)
			w := want{fingerprint: "was connected", config: config(f), wasConnected: true}
			began := f.clock.Now()
			f.set(t.Context(), keyC2, w, nil)
			f.isLost(t, w)
			if took := f.clock.Since(began); took < deadAfter || took > deadAfter+2*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// isLost lets time pass until the target is lost.
func (f fixture) isLost(t *testing.T, w want) {
	t.Helper()
	waittest.Eventually(t, "the target is lost", func() bool {
		if f.findingAbout(keyC2, w).condition.Reason == v1alpha1.ReasonUnreachable {
			return true
		}
		if f.clock.HasWaiters() {
			f.clock.Step(time.Second)
		}
		return false
	})
}

func TestTheTimeWithoutAnAnswerGoesOnWithOtherCredentials(t *testing.T) {
	const later = 20 * time.Second
	for name, test := range map[string]struct {
		status      int // of all answers, or 0 if there are none
		elsewhere   bool
		least, most time.Duration
	}{
		"the same endpoint": {0, false, deadAfter, deadAfter + 2*time.Second},
		"the same endpoint, and it answers that it cannot": {
			http.StatusServiceUnavailable, false, deadAfter, deadAfter + 2*time.Second,
		},
		"another endpoint":                           {0, true, later, later + 10*time.Second},
		"another endpoint, and the last one answers": {http.StatusUnauthorized, true, later, later + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.status)
			last := want{fingerprint: "last", config: f.refuser.config, wasConnected: true}
			if test.status == 0 {
				last.config = &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", porttest.Free(t))}
			}
			next := last
			next.fingerprint = "next"
			if test.elsewhere {
				next.config = &rest.Config{Host: fmt.Sprintf("http://127.0.0.1:%d", porttest.Free(t))}
			}
			began := f.clock.Now()
			f.set(t.Context(), keyC2, last, nil)
			waittest.Eventually(t, "some time has passed", func() bool {
				if f.clock.HasWaiters() && f.clock.Since(began) < later {
					f.clock.Step(time.Second)
				}
				return f.clock.Since(began) >= later
			})
			f.set(t.Context(), keyC2, next, nil)
			f.isLost(t, next)
			if took := f.clock.Since(began); took < test.least || took > test.most {
				t.Errorf("it took %s", took)
			}
		})
	}
}

func TestATargetThatWasConnectedAndRefusesTheSourceIsLostAtOnce(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	w := f.refuser
	w.wasConnected = true
	f.set(t.Context(), keyC2, w, nil)
	f.next(t)
	if found := f.findingAbout(keyC2, w); found.condition.Reason != v1alpha1.ReasonUnauthorized {
		t.Errorf("found %+v", found)
	}
}

func TestWhatIsReportedSaysWhetherATargetWasConnected(t *testing.T) {
	f := newFixture(t, http.StatusOK)
	w := f.refuser
	w.wasConnected = true
	l := newLoop(f.connections, keyC2, w, nil)
	l.doubts = maxMisses
	l.begin(w)
	f.clock.Step(deadAfter - time.Second)
	if l.isLost() {
		t.Error("a target that an earlier leader connected is lost too soon")
	}
	l.report(t.Context(), w, finding{condition: connected(metav1.ConditionFalse, v1alpha1.ReasonUnreachable, "")})
	if !l.isLost() {
		t.Error("a target that was lost is still waited for")
	}
	l.report(t.Context(), w, finding{condition: connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "")})
	if l.isLost() {
		t.Error("a target that was connected is lost too soon")
	}
	f.clock.Step(time.Second)
	if !l.isLost() {
		t.Error("a target that was connected is waited for without end")
	}
}

func TestANewWantInterruptsWaiting(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	key := types.NamespacedName{Name: "c2"}
	f.set(t.Context(), key, f.refuser, nil)
	f.next(t)
	failure := failedWant(v1alpha1.ReasonSecretNotFound, "gone")
	f.set(t.Context(), key, failure, nil)
	found := f.findingAbout(key, failure)
	if found.condition.Type != "" && found.condition.Reason != v1alpha1.ReasonSecretNotFound {
		t.Errorf("what was found for the old want counts for the new: %+v", found)
	}
	f.next(t)
	if found := f.findingAbout(key, failure); found.condition != (metav1.Condition{
		Type:    v1alpha1.ConditionConnected,
		Status:  metav1.ConditionFalse,
		Reason:  v1alpha1.ReasonSecretNotFound,
		Message: "gone",
	}) {
		t.Errorf("found %+v", found)
	}
}

func TestALoopRetiresWithItsTarget(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	key := types.NamespacedName{Name: "c2"}
	f.set(t.Context(), key, f.refuser, nil)
	f.next(t)
	f.mu.Lock()
	l := f.loops[key]
	f.mu.Unlock()
	f.remove(t.Context(), key)
	waittest.Eventually(t, "the loop has ended", func() bool { return f.forgotten(l) })
	f.set(t.Context(), key, f.refuser, nil)
	f.next(t) // The target is back, and tried again.
}

func (f fixture) forgotten(l *loop) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.loops[l.key] != l
}

// A target that makes no Leases any more has no manager that can be silent.
func TestSilenceEndsWithTheLeases(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	l := newLoop(f.connections, types.NamespacedName{Name: "c2"}, f.refuser, nil)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for range 2 {
		l.awake.Look(lease, f.clock.Now())
		f.clock.Step(timeouts.SilentWithin)
	}
	l.engaged = &engagement{target: &engage.Target{}}
	l.report(t.Context(), f.refuser, finding{})
	if found := l.findingAbout(f.refuser); found.awake.Reason != v1alpha1.ReasonSilent {
		t.Fatalf("found %+v", found)
	}
	if l.look(t.Context(), f.refuser) {
		t.Error("the target is to be engaged anew")
	}
	if found := l.findingAbout(f.refuser); found.awake.Type != "" || found.awakeUnknown {
		t.Errorf("found %+v", found)
	}
}

// unknownAddresses are never known. Whoever waits for them without a deadline waits for ever.
type unknownAddresses struct{ ownAddress }

func (unknownAddresses) Wait(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		<-ctx.Done()
	}
	return errors.New("listing pods: no right")
}

func TestUnknownAddressesOfTheSourceAreReported(t *testing.T) {
	f := newFixture(t, http.StatusUnauthorized)
	f.options.Addresses = unknownAddresses{}
	key := types.NamespacedName{Name: "c2"}
	f.set(t.Context(), key, f.refuser, nil)
	f.steps(t, "something is found out", func() bool { return len(f.changes) > 0 })
	found := f.findingAbout(key, f.refuser)
	if found.condition.Reason != v1alpha1.ReasonAddressesUnknown ||
		!strings.Contains(found.condition.Message, "listing pods: no right") {
		t.Errorf("found %+v", found)
	}
	if f.asked.Load() != 0 {
		t.Error("the target was dialled")
	}
}

func TestAttemptsToConnectBecomeRarerUpToALimit(t *testing.T) {
	backoff := newBackoff()
	if first := backoff.Step(); first < time.Second || first > 2*time.Second {
		t.Errorf("the first pause is %s", first)
	}
	for range 20 {
		backoff.Step()
	}
	if last := backoff.Step(); last < 30*time.Second || last > 36*time.Second {
		t.Errorf("the last pause is %s", last)
	}
}
