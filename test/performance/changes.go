package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

const (
	// rounds is how often the same pods are changed: creating them takes longer than changing them.
	rounds = 3
	// idleTime is how long the writes of idle clusters are counted. Those of a change are counted until trailTime after
	// it is complete.
	idleTime  = 15 * time.Second
	trailTime = 3 * time.Second

	changeTarget = "c2" // so the writes of the source are not those of a target
)

// variant is a change that is measured in each round.
type variant struct {
	name    string
	pods    int // that are changed
	clients int // that send requests at the same time; 0 for one that waits for each change to be complete
	// change returns the change of a round. The number is different each time, also from those of other variants.
	change func(round, number int) change

	// The rest is known when the pods run: all of them, those that are changed, and what their clusters write anyway.
	load  load
	pairs []pair
	idle  rates
}

// changing has pods run, plain and then elected ones, and measures changes of them.
func (b *bench) changing(ctx context.Context, l load, kinds []string, variants ...variant) error {
	for _, kind := range kinds {
		l.kind, l.targets = kind, []string{source}
		if kind == report.Elected {
			l.targets = []string{changeTarget}
		}
		if err := b.changeKind(ctx, l, variants); err != nil {
			return fmt.Errorf("changing %s pods: %w", kind, err)
		}
	}
	return nil
}

func (b *bench) changeKind(ctx context.Context, l load, variants []variant) error {
	pairs, err := b.runPairs(ctx, l)
	if err != nil {
		return err
	}
	idle, err := b.idle(ctx)
	if err != nil {
		return err
	}
	for round := range rounds {
		for i, v := range variants {
			v.load, v.pairs, v.idle = l, pairs[:min(v.pods, len(pairs))], idle
			if err := b.measureChange(ctx, v, v.change(round, round*len(variants)+i)); err != nil {
				return fmt.Errorf("%s: %w", v.name, err)
			}
		}
	}
	return b.within(ctx, func(ctx context.Context) error {
		_, err := b.clear(ctx)
		return err
	})
}

// within calls do with the deadline of one measurement.
func (b *bench) within(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return do(ctx)
}

// runPairs creates the pods, and returns them and their delegates when all run.
func (b *bench) runPairs(ctx context.Context, l load) ([]pair, error) {
	fmt.Printf("%s: starting %d %s pods, targets %v\n", l.scenario, l.pods, l.kind, l.targets)
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.onlyTargets(ctx, l.targets); err != nil {
		return nil, err
	}
	w, stop, err := b.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := b.allAtOnce(ctx, w, l); err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	if err := b.source().List(ctx, pods, client.InNamespace(namespace), client.HasLabels{podLabel}); err != nil {
		return nil, err
	}
	pairs := make([]pair, 0, len(pods.Items))
	for i := range pods.Items {
		p := pair{pod: pods.Items[i].Name}
		if l.kind == report.Elected {
			p.delegate = translate.DelegateName(&pods.Items[i])
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// idle counts the writes of the clusters while nothing is asked of them.
func (b *bench) idle(ctx context.Context) (rates, error) {
	counted, took, err := b.count(ctx, func(ctx context.Context) error {
		return sleepUntil(ctx, time.Now().Add(idleTime))
	})
	return counted.per(took), err
}

// count returns the writes of the clusters while do runs, and shortly after.
func (b *bench) count(ctx context.Context, do func(context.Context) error) (writes, time.Duration, error) {
	if err := sleepUntil(ctx, time.Now().Add(trailTime)); err != nil {
		return nil, 0, err
	}
	start := time.Now()
	before, err := b.writes(ctx)
	if err != nil {
		return nil, 0, err
	}
	if err := do(ctx); err != nil {
		return nil, 0, err
	}
	if err := sleepUntil(ctx, time.Now().Add(trailTime)); err != nil {
		return nil, 0, err
	}
	after, err := b.writes(ctx)
	return after.since(before), time.Since(start), err
}

// measureChange changes the pods, and appends the figures to the results.
func (b *bench) measureChange(ctx context.Context, v variant, c change) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	t, stop, err := b.trace(ctx, c, v.load.kind, v.pairs)
	if err != nil {
		return err
	}
	defer stop()
	r := report.Result{
		Label: b.label, Scenario: v.load.scenario, Variant: v.name, Kind: v.load.kind, Targets: len(v.load.targets),
		Pods: len(v.pairs),
	}
	written, took, err := b.count(ctx, func(ctx context.Context) error { return b.send(ctx, t, v.clients, v.pairs) })
	if err != nil {
		return err
	}
	written.without(v.idle, took).perPod(&r, clustersOf(v.load))
	t.summarize(&r)
	return b.note(r)
}

// note appends the figures of a change to the results.
func (b *bench) note(r report.Result) (err error) {
	if r.Load, err = loadAverage(); err != nil {
		return err
	}
	r.Time = time.Now().UTC()
	fmt.Printf("%s: %s of %d %s pods: p50 %.3f s, p99 %.3f s, all %.1f s, %.1f writes per pod (%.1f in the source)\n",
		r.Scenario, r.Variant, r.Pods, r.Kind, r.P50Seconds, r.P99Seconds, r.CompleteSeconds, r.WritesPerPod,
		r.SourceWrites)
	b.measured = append(b.measured, r)
	return appendResult(b.results, r)
}

// send requests the changes, and returns when all are complete.
func (b *bench) send(ctx context.Context, t *trace, clients int, pairs []pair) error {
	group, sending := errgroup.WithContext(ctx)
	group.SetLimit(max(1, clients))
	for i, p := range pairs {
		group.Go(func() error {
			t.ask(p)
			if err := t.send(sending, p); err != nil || clients > 0 {
				return err
			}
			return t.untilWaiting(sending, len(pairs)-i-1)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return t.untilWaiting(ctx, 0)
}

// patch returns a function that sends a strategic merge patch of a pod in the source.
func (b *bench) patch(content map[string]any, subresources ...string) func(context.Context, pair) error {
	return func(ctx context.Context, p pair) error {
		return b.patchPod(ctx, source, p.pod, content, subresources...)
	}
}

func (b *bench) patchPod(
	ctx context.Context, cluster, name string, content map[string]any, subresources ...string,
) error {
	data, err := json.Marshal(content)
	if err != nil {
		return err
	}
	pods := b.clusters[cluster].set.CoreV1().Pods(namespace)
	_, err = pods.Patch(ctx, name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, subresources...)
	return err
}

// loadAverage returns Linux's load average of the last minute.
func loadAverage() (float64, error) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), " ")
	return strconv.ParseFloat(first, 64)
}
