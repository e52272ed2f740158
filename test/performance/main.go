// Command performance measures how fast elected pods start, beside plain pods in the same run, on simulated nodes.
//
// It expects the clusters c1, c2 and c3 with simulated nodes and the product deployed (make bench does all that). It
// runs one scenario after the other and leaves the clusters as it found them: no pods, no further targets, nothing
// cordoned, nothing cut off. It appends each measurement to the results file at once, and writes a report at the end.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "performance:", err)
		os.Exit(1)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the cleanup, too.
	ctrllog.SetLogger(klog.Background())
	o := options{}
	var pods, targets, scenarios string
	flag.StringVar(&o.kubeconfig, "kubeconfig", ".local/kubeconfig",
		"kubeconfig with a context for each of c1, c2 and c3")
	flag.StringVar(&o.label, "label", "run", "label for this run in the results file")
	flag.StringVar(&o.results, "results", ".local/bench/results.jsonl", "file to append each measurement to")
	flag.StringVar(&o.report, "report", ".local/bench/report.md", "file to overwrite with the report; empty for none")
	flag.StringVar(&o.memory, "memory", ".local/bench/memory.json", "result of make bench-memory, for the report")
	flag.StringVar(&o.following, "following", ".local/bench/following.json", "the same while objects follow")
	flag.StringVar(&o.streams, "streams", ".local/bench/streams.json", "result of make bench-streams, for the report")
	flag.StringVar(&pods, "pods", "100,500,2000", "numbers of pods to create at once, separated by commas")
	flag.StringVar(&targets, "targets", "c2;c1,c2,c3;c1,c2,c3,+7",
		"sets of targets, separated by semicolons; +7 adds seven further targets, which lead to c1 and c2 again")
	flag.StringVar(&scenarios, "scenarios", strings.Join(scenarioNames(), ","),
		"scenarios to measure, separated by commas")
	flag.Float64Var(&o.scale, "scale", 1, "factor for the usual number of pods, in all scenarios but burst")
	flag.IntVar(&o.repeat, "repeat", 1, "number of measurements of each kind; the report shows medians")
	flag.Parse()
	var err error
	if o.pods, err = parsePods(pods); err != nil {
		return fmt.Errorf("-pods: %w", err)
	}
	if o.sets, err = parseSets(targets); err != nil {
		return fmt.Errorf("-targets: %w", err)
	}
	if o.scenarios, err = parseScenarios(scenarios); err != nil {
		return fmt.Errorf("-scenarios: %w", err)
	}
	return run(ctx, o)
}

// run measures the chosen scenarios. After a failure there is no report, but the results file has the measurements made
// before.
func run(ctx context.Context, o options) error {
	begin := time.Now()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close(context.WithoutCancel(ctx))
	environment, err := b.environment(ctx)
	if err != nil {
		return fmt.Errorf("reading about the machine and the clusters: %w", err)
	}
	if err := b.warmUp(ctx); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	if err := b.rest(ctx); err != nil {
		return fmt.Errorf("measuring idle clusters: %w", err)
	}
	for range o.repeat {
		for _, s := range scenarios() {
			if !o.scenarios[s.name] {
				continue
			}
			if err := s.run(b, ctx); err != nil {
				return fmt.Errorf("scenario %s: %w", s.name, err)
			}
		}
	}
	if o.report == "" {
		return nil
	}
	return writeReport(o, report.Report{
		Title:       "Performance report",
		Command:     "go run ./test/performance " + strings.Join(quoted(os.Args[1:]), " "),
		Time:        begin.UTC(),
		Took:        time.Since(begin).Round(time.Second),
		Environment: environment,
		Results:     b.measured,
		Further:     b.further(),
	})
}
