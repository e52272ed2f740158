package scheduling

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

func TestEachErrorOfPlacingHasAnOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want diagnosis.Outcome
	}{
		"no error": {nil, diagnosis.Bound},
		"a target's scheduler finds no node": {
			&placement.RefusedError{Refusal: placement.Unschedulable}, diagnosis.Refused,
		},
		"a target's API server refuses the pod": {
			&placement.RefusedError{Refusal: placement.Forbidden}, diagnosis.Refused,
		},
		"a target does not allow PodChaperons": {
			&placement.RefusedError{Refusal: placement.RightsMissing}, diagnosis.Refused,
		},
		"a target does not decide in time": {&placement.RefusedError{Refusal: placement.Late}, diagnosis.TimedOut},
		"the delegate is scheduled elsewhere": {
			&placement.RefusedError{Refusal: placement.ScheduledElsewhere}, diagnosis.ScheduledElsewhere,
		},
		"the PodChaperon was not created": {
			&placement.RefusedError{Refusal: placement.CreateFailed}, diagnosis.CreateFailed,
		},
		"the target's API server is busy": {
			&placement.CreateError{Cause: errors.New("busy")}, diagnosis.CreateFailed,
		},
		"an earlier delegate is still ending": {
			&placement.RefusedError{Refusal: placement.StillEnding}, diagnosis.StillEnding,
		},
		"somebody else deletes the PodChaperon": {errors.New("deleted"), diagnosis.Lost},
		"a refusal is wrapped in another error": {
			fmt.Errorf("placing: %w", &placement.RefusedError{Refusal: placement.Late}), diagnosis.TimedOut,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := outcomeOf(test.err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestARefusalIsRemembered(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want attempts.Failure
	}{
		"a target's scheduler finds no node": {
			&placement.RefusedError{Refusal: placement.Unschedulable, Reason: "full", MoreRoom: true},
			attempts.Failure{Refused: true, Reason: "full", BackOff: attempts.UntilMoreRoom, MoreRoom: true},
		},
		"a target's API server refuses the pod": {
			&placement.RefusedError{Refusal: placement.Forbidden, Reason: "quota"},
			attempts.Failure{Refused: true, Reason: "quota", BackOff: attempts.FixedTime},
		},
		"a target does not allow PodChaperons": {
			&placement.RefusedError{Refusal: placement.RightsMissing, Reason: "forbidden"},
			attempts.Failure{Refused: true, Reason: "forbidden", BackOff: attempts.ShortTime},
		},
		"a target does not decide in time": {
			&placement.RefusedError{Refusal: placement.Late, Reason: "slow"},
			attempts.Failure{Refused: true, Reason: "slow", BackOff: attempts.TimeOrMoreRoom},
		},
		"the target's API server is busy": {&placement.CreateError{Cause: errors.New("busy")}, attempts.Failure{}},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := newWorld().engage(t, "c1", interceptor.Funcs{})
			test.want.NodeName, test.want.Preempts = c1.NodeName, true
			if diff := cmp.Diff(test.want, failureOf(test.err, c1, true)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnAttemptInALostTargetSaysSo(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	w.registry.Lose(c1.Target.Target)
	want := attempts.Failure{NodeName: c1.NodeName, Lost: true}
	if diff := cmp.Diff(want, failureOf(errors.New("it is not reachable any more"), c1, false)); diff != "" {
		t.Error(diff)
	}
}
