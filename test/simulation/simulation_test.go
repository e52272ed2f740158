package simulation

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

const (
	// stepsOfARun is how many random steps a run has before everything is repaired.
	stepsOfARun = 150
	// runs are those of the unit tests. SIMULATION_RUNS asks for another number, from the seed SIMULATION_FIRST.
	runs = 200
)

// TestTheProtocolHoldsWhateverGoesWrong prints the seed of a run that fails, and the fewest steps that fail, too.
// SIMULATION_SEED repeats that run.
func TestTheProtocolHoldsWhateverGoesWrong(t *testing.T) {
	seen := &coverage{}
	t.Cleanup(func() { seen.report(t) })
	each(t, func(t *testing.T, seed uint64) {
		t.Helper()
		try(t, seed, seen)
	})
}

// each calls try with the seed that is asked for, or with all seeds.
func each(t *testing.T, try func(t *testing.T, seed uint64)) {
	t.Helper()
	eachOf(t, 1, try)
}

// eachOf does a part of the runs that are asked for: one in so many.
func eachOf(t *testing.T, part uint64, try func(t *testing.T, seed uint64)) {
	t.Helper()
	if seed := number(t, "SIMULATION_SEED", 0); seed != 0 {
		try(t, seed)
		return
	}
	first, count := uint64(1), number(t, "SIMULATION_RUNS", 0)
	if count == 0 {
		count = runs / part // The same ones each time: others have nothing to do with the change at hand.
	} else {
		count = max(count/part, 1)
		first = number(t, "SIMULATION_FIRST", rand.Uint64()>>1)
		t.Logf("%d runs from SIMULATION_FIRST=%d", count, first)
	}
	goOn := os.Getenv("SIMULATION_GO_ON") != "" // after a run that failed
	workers := uint64(runtime.GOMAXPROCS(0))
	for worker := range workers {
		t.Run(strconv.FormatUint(worker, 10), func(t *testing.T) {
			t.Parallel()
			for i := worker; i < count && (!t.Failed() || goOn); i += workers {
				try(t, first+i)
				if t.Failed() {
					t.Logf("run %d failed", i+1)
				}
			}
		})
	}
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestARunIsRepeatable(t *testing.T) {
	repeatable(t, 0, func(seed uint64) []string {
		steps, _ := simulate(t, randomly(seed))
		return steps
	}, func(steps []string) []string {
		again, _ := simulate(t, func(w *world) { w.repeat(steps) })
		return again
	})
}

// repeatable checks that a seed repeats a run, and that its steps do. A few runs may differ.
func repeatable(t *testing.T, few int, run func(seed uint64) []string, again func(steps []string) []string) {
	t.Helper()
	const seeds = 20
	var different []string
	for seed := range uint64(seeds) {
		first := run(seed)
		if second := run(seed); !slices.Equal(first, second) {
			different = append(different, fmt.Sprintf("seed %d: %s", seed, firstDifference(first, second)))
			continue
		}
		if third := again(beforeRepair(first)); !slices.Equal(first, third) {
			different = append(different, fmt.Sprintf("steps of seed %d: %s", seed, firstDifference(first, third)))
		}
	}
	if len(different) > few {
		t.Errorf("%d of %d runs differ:\n%s", len(different), seeds, strings.Join(different, "\n"))
	}
}

func firstDifference(one, other []string) string {
	for i := range min(len(one), len(other)) {
		if one[i] != other[i] {
			return fmt.Sprintf("step %d of %d: %q and %q", i, len(one), one[i], other[i])
		}
	}
	return fmt.Sprintf("%d and %d steps", len(one), len(other))
}

// try does a random run, and reports its failure.
func try(t *testing.T, seed uint64, seen *coverage) {
	t.Helper()
	trace, failed := simulate(t, func(w *world) {
		randomly(seed)(w)
		seen.add(w.reached)
	})
	report(t, seed, trace, failed, func(steps []string) ([]string, error) {
		return simulate(t, func(w *world) { w.repeat(steps) })
	})
}

// report shrinks a run that failed, if it did, and reports it. again does the steps again that are left.
func report(t *testing.T, seed uint64, trace []string, failed error, again func([]string) ([]string, error)) {
	t.Helper()
	if failed == nil {
		return
	}
	trace, failed = shrink(trace, failed, again)
	t.Errorf("%v, with SIMULATION_SEED=%d, after:\n  %s", failed, seed, strings.Join(readable(trace), "\n  "))
}

func randomly(seed uint64) func(w *world) {
	return func(w *world) { newSwarm(w, rand.New(rand.NewPCG(seed, 0))).run() }
}

// simulate does steps in a new world, and then repairs everything. It returns all steps, and what went wrong.
func simulate(t *testing.T, steps func(w *world)) (trace []string, failed error) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := newWorld()
		w.rest()
		steps(w)
		if w.failed() == nil {
			w.heal()
		}
		w.end()
		trace, failed = w.trace, w.failed()
	})
	return trace, failed
}
