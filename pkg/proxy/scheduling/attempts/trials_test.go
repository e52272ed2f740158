package attempts

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
)

func TestAFailedAttemptEndsTheTrialIfTheTargetRefusedOrIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		failure Failure
		ended   bool
	}{
		"the target refused":            {Failure{NodeName: "c1", Refused: true, Reason: "full"}, true},
		"the target cannot be reached":  {Failure{NodeName: "c1", Lost: true}, true},
		"somebody deleted the delegate": {Failure{NodeName: "c1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			pod := schedulingtest.NewPod("p", nil)
			w.of(t, "p")
			w.Try("p", Trial{"c1", Grow}, map[string]Prospect{"c1": Grow})
			w.Failed(pod, test.failure)
			want := Next{Trial: Trial{"c1", Grow}, Prospects: map[string]Prospect{"c1": Grow}}
			if test.ended {
				want = Next{Again: true}
			}
			if diff := cmp.Diff(want, w.TakeNext("p")); diff != "" {
				t.Error(diff)
			}
			if again := w.TakeNext("p").Again; again {
				t.Error("that all targets are to be looked at is said twice")
			}
		})
	}
}

func TestTheTargetThatPreemptsForAPodIsRemembered(t *testing.T) {
	w := newWorld()
	w.Failed(schedulingtest.NewPod("p", nil), Failure{NodeName: "c1", Preempts: true})
	w.refuse("p", "c2", FixedTime)
	if got := w.of(t, "p").Disturbed; got != "c1" {
		t.Errorf("disturbed is %q, want c1", got)
	}
}

func TestMoreRoomSinceARefusalShortensTheExclusion(t *testing.T) {
	w := newWorld()
	w.Failed(schedulingtest.NewPod("p", nil), Failure{
		NodeName: "c1", Refused: true, Reason: "full", BackOff: UntilMoreRoom, MoreRoom: true,
	})
	if w.leftOut(t, "p") == nil {
		t.Error("the target is not left out")
	}
	w.clock.Step(time.Second)
	w.expectLifted(t, "p")
}

func TestTheDemandIsComputedAnewWhenThePodHasChanged(t *testing.T) {
	w := newWorld()
	pod := schedulingtest.NewPod("p", schedulingtest.List("cpu", "1"))
	demandAt := func(version string) *fit.Demand {
		pod.ResourceVersion = version
		memory, err := w.Of(pod)
		if err != nil {
			t.Fatal(err)
		}
		return memory.Demand
	}
	first := demandAt("1")
	if demandAt("1") != first {
		t.Error("the demand of an unchanged pod is computed again")
	}
	if demandAt("2") == first {
		t.Error("the demand of a changed pod is the old one")
	}
}
