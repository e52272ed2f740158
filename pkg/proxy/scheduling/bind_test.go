package scheduling

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
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

func TestAnAttemptWithoutAnAnswerIsNotTheTargets(t *testing.T) {
	for name, err := range map[string]error{
		"the source lacks what the pod needs": &needs.MissingError{Namespace: "default"},
		"the API server is busy":              &placement.CreateError{Target: "c1", Cause: errors.New("busy")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.engage(t, "c1", interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
					return apierrors.NewTooManyRequests("busy", 1)
				},
			})
			follower := &followed{}
			var want []string
			if errors.As(err, new(*needs.MissingError)) {
				follower.ensured = err
			} else {
				want = []string{"CreateFailed"}
			}
			w.placer = placement.New(placement.Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Ensure: follower.Ensure, Sign: func(proof.Claim) (string, error) { return "signed", nil },
			})
			pod := newPod("p", nil)
			if got := w.attempt(t.Context(), &cycle{}, pod, c1); got == nil {
				t.Fatal("the attempt succeeded")
			}
			explained, _ := w.explanations.Get(client.ObjectKeyFromObject(pod))
			var outcomes []string
			for _, a := range explained.Attempts {
				outcomes = append(outcomes, string(a.Outcome))
			}
			if diff := cmp.Diff(want, outcomes); diff != "" {
				t.Error(diff)
			}
		})
	}
}
