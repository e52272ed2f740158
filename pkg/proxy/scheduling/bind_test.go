package scheduling

import (
	"errors"
	"fmt"
	"testing"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

func TestEachErrorOfPlacingHasAnOutcome(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want diagnosis.Outcome
	}{
		"no error":                              {nil, diagnosis.Bound},
		"a target's scheduler finds no node":    {&refusedError{kind: unschedulable}, diagnosis.Refused},
		"a target's API server refuses the pod": {&refusedError{kind: forbidden}, diagnosis.Refused},
		"a target does not allow PodChaperons":  {&refusedError{kind: rightsMissing}, diagnosis.Refused},
		"a target does not decide in time":      {&refusedError{kind: late}, diagnosis.TimedOut},
		"the delegate is scheduled elsewhere":   {&refusedError{kind: elsewhere}, diagnosis.ScheduledElsewhere},
		"the PodChaperon was not created":       {&refusedError{kind: createFailed}, diagnosis.CreateFailed},
		"the target's API server is busy":       {&createError{cause: errors.New("busy")}, diagnosis.CreateFailed},
		"an earlier delegate is still ending":   {&refusedError{kind: stillEnding}, diagnosis.StillEnding},
		"somebody else deletes the PodChaperon": {errors.New("deleted"), diagnosis.Lost},
		"a refusal is wrapped in another error": {fmt.Errorf("placing: %w", &refusedError{kind: late}), diagnosis.TimedOut},
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := outcomeOf(test.err); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
