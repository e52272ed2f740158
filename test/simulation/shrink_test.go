package simulation

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shrinking is how long a failing run is shrunk, unless SIMULATION_SHRINK is another time.
const shrinking = time.Minute

// shrink leaves out as many steps as possible, so that the run still fails: first many at once, then fewer.
func shrink(trace []string, failed error, again func([]string) ([]string, error)) ([]string, error) {
	begun, long := time.Now(), shrinking
	if other, err := time.ParseDuration(os.Getenv("SIMULATION_SHRINK")); err == nil {
		long = other
	}
	steps := beforeRepair(trace)
	for size := len(steps); size > 0; size /= 2 {
		for i := 0; i < len(steps) && time.Since(begun) < long; {
			fewer := slices.Concat(steps[:i], steps[min(i+size, len(steps)):])
			done, err := again(fewer)
			if err == nil {
				i += size
				continue
			}
			trace, failed, steps = done, err, beforeRepair(done)
		}
	}
	return trace, failed
}

func beforeRepair(trace []string) []string {
	if i := slices.Index(trace, healed); i >= 0 {
		return trace[:i]
	}
	return trace
}

// readable says how often a step is repeated.
func readable(trace []string) []string {
	var lines []string
	for len(trace) > 0 {
		n := 1
		for n < len(trace) && trace[n] == trace[0] {
			n++
		}
		line := trace[0]
		if n > 1 {
			line = fmt.Sprintf("%s (%d times)", line, n)
		}
		lines, trace = append(lines, line), trace[n:]
	}
	return lines
}

// TestAFailingRunIsShrunkToTheStepsThatItNeeds has a run of 1,000 steps that fails because of three of them.
func TestAFailingRunIsShrunkToTheStepsThatItNeeds(t *testing.T) {
	var trace []string
	for i := range 1000 {
		trace = append(trace, fmt.Sprintf("step %d", i%10))
	}
	needed := []string{"the Lease is lost", "the Lease is lost", "a pod is created"}
	for i, step := range needed {
		trace = slices.Insert(trace, 300*(i+1), step)
	}
	runs, broken := 0, errors.New("broken")
	again := func(steps []string) ([]string, error) {
		runs++
		left := needed
		for _, step := range steps {
			if len(left) > 0 && step == left[0] {
				left = left[1:]
			}
		}
		done := append(slices.Clone(steps), healed, "what the repair did")
		if len(left) > 0 {
			return done, nil
		}
		return done, broken
	}
	got, err := shrink(append(trace, healed), errors.New("the first error"), again)
	if !errors.Is(err, broken) {
		t.Errorf("error is %v, want that of the last run", err)
	}
	if diff := cmp.Diff(append(slices.Clone(needed), healed, "what the repair did"), got); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if runs > len(trace)/2 {
		t.Errorf("it took %d runs", runs)
	}
	want := []string{"the Lease is lost (2 times)", "a pod is created"}
	if diff := cmp.Diff(want, readable(beforeRepair(got))); diff != "" {
		t.Errorf("readable steps (-want +got):\n%s", diff)
	}
}
