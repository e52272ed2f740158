package target

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// becomes waits until the connection has a reason.
func (r *reaching) becomes(t *testing.T, w want, reason string) metav1.Condition {
	t.Helper()
	var is metav1.Condition
	waittest.Eventually(t, "the connection is "+reason, func() bool {
		is = r.findingAbout(keyC2, w).condition
		return is.Reason == reason
	})
	return is
}

// loopOf returns the loop of the target.
func (r *reaching) loopOf() *loop {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loops[keyC2]
}

func TestALoopKeepsATargetConnected(t *testing.T) {
	r := newReaching(t, keyC2, summaryOf("c2"))
	if found := r.findingAbout(keyC2, r.want); found != (finding{}) {
		t.Errorf("before there is a connection: %+v", found)
	}
	r.set(t.Context(), keyC2, r.want, nil)
	r.becomes(t, r.want, v1alpha1.ReasonConnected)
	if found := r.findingAbout(keyC2, r.want); found.version != "v1.37.0" || found.clusterID != "c2" {
		t.Errorf("version %q of cluster %q", found.version, found.clusterID)
	}
	broken := failedWant(v1alpha1.ReasonSecretNotFound, "gone")
	if got := r.goOn(keyC2, broken); got.fingerprint != r.want.fingerprint || got.unusable.Type == "" {
		t.Errorf("without its Secret, the connection goes on as %+v", got)
	}
	other := types.NamespacedName{Name: "c3"}
	if got := r.goOn(other, broken); got.failure == nil {
		t.Error("a target that was never connected goes on")
	}
	r.set(t.Context(), keyC2, broken, nil)
	r.becomes(t, broken, v1alpha1.ReasonSecretNotFound)
	if _, ok := r.options.Registry.ByKey(keyC2); ok {
		t.Error("the target is still engaged")
	}
}

func TestATargetThatCostsTooMuchPausesForLongerEachTime(t *testing.T) {
	r := newReaching(t, keyC2, summaryOf("c2"))
	r.set(t.Context(), keyC2, r.want, nil)
	for _, pause := range []string{"5m0s", "10m0s"} {
		r.becomes(t, r.want, v1alpha1.ReasonConnected)
		target, _ := r.options.Registry.ByKey(keyC2)
		target.Account.Keep(1, 1<<40)
		is := r.becomes(t, r.want, v1alpha1.ReasonOverBudget)
		if !strings.Contains(is.Message, "tried again every "+pause) {
			t.Errorf("message %q, want %s", is.Message, pause)
		}
		if _, ok := r.options.Registry.ByKey(keyC2); ok {
			t.Error("it is still engaged")
		}
		waittest.Eventually(t, "the pause ends", func() bool {
			r.clock.Step(firstPenalty)
			return r.findingAbout(keyC2, r.want).condition.Reason != v1alpha1.ReasonOverBudget
		})
	}
}

func TestAPauseIsBoundedAndEndsWithItsWant(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	r := newReaching(t, keyC2)
	r.loop.options.Clock = hasty{r.clock}
	if r.loop.punish(ended, r.want, errAway); r.loop.penalty != 0 || r.loop.finding != (finding{}) {
		t.Error("the former want is punished")
	}
	for range 7 {
		r.loop.punish(t.Context(), r.want, errAway)
	}
	if r.loop.penalty != lastPenalty {
		t.Errorf("the pause is %s", r.loop.penalty)
	}
}

func TestWhatBecomesOfATargetThatCannotBeReachedAgain(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for name, test := range map[string]struct {
		reason        string
		other, over   bool // another want connected it; the want changes
		engaged, lost bool
		reports       bool
	}{
		"it does not answer": {
			reason: v1alpha1.ReasonUnreachable, engaged: true, lost: true, reports: true,
		},
		"it refuses us": {
			reason: v1alpha1.ReasonForbidden, engaged: true, lost: true, reports: true,
		},
		"it is another cluster":                {reason: v1alpha1.ReasonOtherCluster, reports: true},
		"it was set back":                      {reason: v1alpha1.ReasonTurnedBack, reports: true},
		"an earlier want connected it":         {reason: v1alpha1.ReasonUnreachable, other: true, reports: true},
		"the attempt ended for another reason": {reason: v1alpha1.ReasonUnreachable, over: true, engaged: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReaching(t, keyC2)
			fingerprint := r.want.fingerprint
			if test.other {
				fingerprint = "other"
			}
			target := &engage.Target{Key: keyC2}
			r.loop.engaged = &engagement{
				target: target, fingerprint: fingerprint, end: func() {}, identity: identity.New(""),
			}
			ctx := t.Context()
			if test.over {
				ctx = ended
			}
			r.loop.failed(ctx, r.want, disconnected(test.reason, ""))
			if engaged := r.loop.engaged != nil; engaged != test.engaged || target.Lost() != test.lost {
				t.Errorf("engaged: %t, lost: %t", engaged, target.Lost())
			}
			if reported := r.loop.findingAbout(r.want).condition.Reason == test.reason; reported != test.reports {
				t.Errorf("it is reported: %t", reported)
			}
		})
	}
}

func TestCredentialsThatAreRefusedHaveNotWorked(t *testing.T) {
	for reason, want := range map[string]string{
		v1alpha1.ReasonUnauthorized: "", v1alpha1.ReasonForbidden: "reached", v1alpha1.ReasonUnreachable: "reached",
	} {
		r := newReaching(t, keyC2)
		r.loop.worked = "reached"
		r.loop.report(t.Context(), r.want, finding{condition: disconnected(reason, "")})
		if r.loop.worked != want {
			t.Errorf("%s: what has worked is %q", reason, r.loop.worked)
		}
	}
}

func TestAManagerThatStopsWaitsForItsLoops(t *testing.T) {
	r := newReaching(t, keyC2)
	if err := r.Start(t.Context()); err != nil {
		t.Errorf("without Leases: %v", err)
	}
	r.options.Holds = hold.New(hold.Options{ClusterID: "c1", Name: "manager", Clock: r.clock, OwnLease: &heir{}})
	ctx, stop := context.WithCancel(t.Context())
	waits := make(chan struct{})
	r.running.Go(func() { <-waits })
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	stop()
	waittest.Eventually(t, "it waits for its loops", r.clock.HasWaiters)
	select {
	case err := <-ended:
		t.Fatalf("it does not wait for a loop: %v", err)
	default:
	}
	close(waits)
	if err := waittest.Receive(t, "the end", ended); err != nil {
		t.Error(err)
	}

	waits = make(chan struct{})
	defer close(waits)
	r.running.Go(func() { <-waits })
	go func() { ended <- r.Start(ctx) }()
	waittest.Eventually(t, "it waits for its loops", r.clock.HasWaiters)
	r.clock.Step(leaveLeasesWithin)
	_ = waittest.Receive(t, "the end, although a loop hangs", ended)
}

func TestATargetThatIsMadeAgainKeepsItsLoop(t *testing.T) {
	r := newReaching(t, keyC2)
	r.loops[keyC2] = r.loop
	if r.retire(r.loop) || r.loopOf() == nil {
		t.Error("the loop retires, although its target is there")
	}
	r.loop.set(want{fingerprint: "gone", gone: true})
	if !r.retire(r.loop) || r.loopOf() != nil {
		t.Error("the loop does not retire")
	}
}
