package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// options are the flags.
type options struct {
	report, only string
	seeds        uint64
}

func main() {
	var o options
	flags := flag.NewFlagSet("placement", flag.ExitOnError)
	flags.StringVar(&o.report, "report", "", "the page that gets the table, docs/performance/placement.md say")
	flags.StringVar(&o.only, "run", "", "simulates only the scenarios whose names contain this")
	flags.Uint64Var(&o.seeds, "seeds", 1, "how many seeds each scenario has; the others follow the one in the table")
	_ = flags.Parse(os.Args[1:])
	quiet()
	asTest("placement", func(t *testing.T) {
		t.Helper()
		if err := simulateAll(t, o); err != nil {
			t.Fatal(err)
		}
	})
}

// simulateAll prints a line for each scenario, and writes the report. It returns an error if there are problems.
func simulateAll(t *testing.T, o options) error {
	t.Helper()
	var results []result
	var problems []string
	fmt.Println(strings.Join(header(), "\t"))
	for _, s := range scenarios() {
		if !strings.Contains(s.name, o.only) {
			continue
		}
		for range o.seeds {
			began := time.Now()
			r, err := simulate(t, s)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", s.name, s.seed, err)
			}
			results = append(results, r)
			for _, problem := range r.problems() {
				problems = append(problems, fmt.Sprintf("%s, seed %d: %s", s.name, s.seed, problem))
			}
			fmt.Printf("%s\t(%s)\n", strings.Join(r.cells(), "\t"), time.Since(began).Round(100*time.Millisecond))
			s.seed += 100
		}
	}
	if o.report != "" {
		if err := write(o.report, results); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("these must not be:\n%s", strings.Join(problems, "\n"))
	}
	return nil
}

// simulate simulates a scenario with the fleet and with the flat cluster.
func simulate(t *testing.T, s scenario) (r result, err error) {
	t.Helper()
	r.scenario = s
	g := s.made()
	r.clusters, r.nodes = len(g.clusters), 0
	for _, c := range g.clusters {
		r.nodes += len(c.nodes)
		r.limited = r.limited || c.quota > 0 || c.queue > 0
	}
	inBubble(t, func(ctx context.Context) { r.fleet, err = simulateFleet(ctx, s) })
	if err != nil {
		return r, err
	}
	inBubble(t, func(ctx context.Context) { r.flat, err = simulateFlat(ctx, s) })
	return r, err
}
