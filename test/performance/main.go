// Command performance measures how fast elected pods start, beside plain pods in the same run, on simulated nodes.
//
// It expects clusters c1, c2, c3 with simulated nodes and the product deployed (make bench does all that), runs scenarios on them one after
// the other, and leaves the clusters as it found them: no pods, no further targets, nothing cordoned, nothing cut off. Every
// measurement is a line of the results file as soon as it is made; a report at the end compares them.
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
	context.AfterFunc(ctx, stop) // The second signal ends the cleaning up, too.
	ctrllog.SetLogger(klog.Background())
	o := options{}
	var pods, targets, scenarios string
	flag.StringVar(&o.kubeconfig, "kubeconfig", ".local/kubeconfig", "kubeconfig with a context for each of c1, c2 and c3")
	flag.StringVar(&o.label, "label", "run", "label of this run in the results file")
	flag.StringVar(&o.results, "results", ".local/bench/results.jsonl", "file to which each measurement is appended")
	flag.StringVar(&o.report, "report", ".local/bench/report.md", "file for the report, overwritten; empty for none")
	flag.StringVar(&o.memory, "memory", ".local/bench/memory.json", "what make bench-memory measured, for the report")
	flag.StringVar(&pods, "pods", "100,500,2000", "numbers of pods to start at once")
	flag.StringVar(&targets, "targets", "c2;c1,c2,c3;c1,c2,c3,+7", "sets of targets, separated by semicolons; +7 are seven more that lead to c1 and c2 again")
	flag.StringVar(&scenarios, "scenarios", strings.Join(scenarioNames(), ","), "what to measure")
	flag.Float64Var(&o.scale, "scale", 1, "share of the usual number of pods in other scenarios than burst")
	flag.IntVar(&o.repeat, "repeat", 1, "how often to measure each")
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

// run measures what the options ask for. What was measured before something failed is in the results file, and not in a report.
func run(ctx context.Context, o options) error {
	begin := time.Now()
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.close(context.WithoutCancel(ctx))
	environment, err := b.environment(ctx)
	if err != nil {
		return fmt.Errorf("finding out about the machine and the clusters: %w", err)
	}
	if err := b.warmUp(ctx); err != nil {
		return fmt.Errorf("warming up: %w", err)
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
