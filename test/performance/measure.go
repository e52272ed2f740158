package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// deadline bounds one measurement, and one cleanup.
const deadline = 10 * time.Minute

// load says how many pods a measurement creates, on which targets, and how it creates and removes them.
type load struct {
	scenario, variant, kind string
	pods                    int
	targets                 []string
	real                    bool // the pods run on the real nodes, in containers
	// start creates the pods and returns when all have run.
	start func(context.Context, *watch, load) error
	// remove removes the pods and returns when nothing is left; nil deletes them.
	remove func(context.Context, *watch, *report.Result) error
	// counts reports whether the latency of a pod counts; nil counts all.
	counts func(*sighting) bool
}

// measure creates the pods, removes them, and appends the figures to the results.
func (b *bench) measure(ctx context.Context, l load) error {
	fmt.Printf("%s: %d %s pods, targets %v %s… ", l.scenario, l.pods, l.kind, l.targets, l.variant)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.onlyTargets(ctx, l.targets); err != nil {
		return err
	}
	r := report.Result{
		Label: b.label, Scenario: l.scenario, Variant: l.variant, Kind: l.kind, Targets: len(l.targets), Pods: l.pods,
		SourceIsTarget: l.kind == report.Elected && slices.ContainsFunc(l.targets, leadsToSource),
	}
	w, stop, err := b.watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if err := b.observe(ctx, w, l, &r); err != nil {
		return fmt.Errorf("starting %d %s pods: %w", l.pods, l.kind, err)
	}
	remove := l.remove
	if remove == nil {
		remove = b.deleteAll
	}
	if err := remove(ctx, w, &r); err != nil {
		return fmt.Errorf("removing %d %s pods: %w", l.pods, l.kind, err)
	}
	r.Time = time.Now().UTC()
	fmt.Printf("%.1f pods/s, p50 %.2f s, p99 %.2f s, %.1f writes per pod\n",
		r.PodsPerSecond, r.P50Seconds, r.P99Seconds, r.WritesPerPod)
	b.measured = append(b.measured, r)
	return appendResult(b.results, r)
}

// observe starts the pods and fills in the figures until all pods ran. It reads the API servers' metrics first and
// last, so that the CPU figures leave the reading out.
func (b *bench) observe(ctx context.Context, w *watch, l load, r *report.Result) error {
	leader, err := b.leader(ctx)
	if err != nil {
		return err
	}
	if err := leader.resetPeak(); err != nil {
		return err
	}
	written, err := b.writes(ctx)
	if err != nil {
		return err
	}
	used, err := cpuTime(leader)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := l.start(ctx, w, l); err != nil {
		return err
	}
	took := time.Since(began)
	usedAfter, err := cpuTime(leader)
	if err != nil {
		return fmt.Errorf("%w; did the manager that led end during the measurement?", err)
	}
	writtenAfter, err := b.writes(ctx)
	if err != nil {
		return err
	}
	if r.ManagerPeakMiB, err = leader.peakMiB(); err != nil {
		return err
	}
	usedAfter.since(used).perPod(r, clustersOf(l), b.idleCPU, took)
	writtenAfter.since(written).perPod(r, clustersOf(l))
	w.summarize(r, l.counts)
	return nil
}

// clustersOf returns the names of the clusters in which the pods of a load run.
func clustersOf(l load) []string {
	var clusters []string
	if l.kind == report.Elected {
		for _, target := range l.targets {
			clusters = append(clusters, leadsTo(target))
		}
	}
	return clusters
}

func leadsToSource(target string) bool { return leadsTo(target) == source }

func (b *bench) deleteAll(ctx context.Context, _ *watch, r *report.Result) error {
	took, err := b.clear(ctx)
	r.DeleteSeconds = took.Seconds()
	return err
}

// summarize fills in the latencies of the pods that count, and the nodes of all pods.
func (w *watch) summarize(r *report.Result, counts func(*sighting) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var latencies []time.Duration
	var first, last time.Time
	r.Spread = map[string]int{}
	for _, s := range w.pods {
		if s.retried {
			r.RetriedPods++
		}
		if s.running.IsZero() {
			r.NeverRan++
			continue
		}
		r.Spread[s.node]++
		if counts != nil && !counts(s) {
			continue
		}
		latencies = append(latencies, s.running.Sub(s.asked))
		if first.IsZero() || s.asked.Before(first) {
			first = s.asked
		}
		if s.running.After(last) {
			last = s.running
		}
	}
	r.P50Seconds, r.P90Seconds, r.P99Seconds = report.Percentiles(latencies)
	if took := last.Sub(first); took > 0 {
		r.PodsPerSecond = float64(len(latencies)) / took.Seconds()
	}
}
