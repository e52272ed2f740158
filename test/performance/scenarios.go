package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// The usual numbers of pods differ from those of bursts, so that a program that reads the results by kind, targets and
// pods alone finds only bursts.
const (
	alonePods  = 20
	lightPods  = 150
	lightPause = 200 * time.Millisecond
	holePods   = 300
	churnPods  = 1200
	churnPause = time.Second / 20
	churnLife  = 10 * time.Second
	drainPods  = 1000

	feedbackPods = 100
	labelsPods   = 200
	imagePods    = 100
	resizePods   = 50
	rolloutPods  = 100

	warmPods = 20
)

type scenario struct {
	name string
	run  func(*bench, context.Context) error
}

func scenarios() []scenario {
	return []scenario{
		{report.Burst, (*bench).bursts},
		{report.Alone, (*bench).alone},
		{report.Light, (*bench).light},
		{report.Churn, (*bench).churn},
		{report.Drain, (*bench).drain},
		{report.Blackhole, (*bench).blackhole},
		{report.Feedback, (*bench).feedback},
		{report.Labels, (*bench).labels},
		{report.InPlace, (*bench).inPlace},
		{report.Rollout, (*bench).rollout},
	}
}

func scenarioNames() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
	}
	return names
}

// warmUp runs a few plain and elected pods, so that everything has worked once before it is measured.
func (b *bench) warmUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for _, kind := range []string{report.Plain, report.Elected} {
		w, stop, err := b.watch(ctx)
		if err != nil {
			return err
		}
		err = b.allAtOnce(ctx, w, load{scenario: "warm-up", kind: kind, pods: warmPods, targets: clusterNames()})
		stop()
		if err != nil {
			return err
		}
		if _, err := b.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rest measures what the clusters take while they have no pods.
func (b *bench) rest(ctx context.Context) error {
	if err := sleepUntil(ctx, time.Now().Add(trailTime)); err != nil {
		return err
	}
	before, err := processCPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sleepUntil(ctx, began.Add(2*idleTime)); err != nil {
		return err
	}
	after, err := processCPU()
	if err != nil {
		return err
	}
	took := time.Since(began)
	b.idleCPU = after.since(before).clusters
	for cluster := range b.idleCPU {
		b.idleCPU[cluster] /= took.Seconds()
	}
	fmt.Printf("idle clusters: CPU seconds per second: %v\n", b.idleCPU)
	return nil
}

// beside measures plain pods, and then elected pods with the same load.
func (b *bench) beside(ctx context.Context, l load, targets []string) error {
	l.kind, l.targets = report.Plain, []string{source}
	if err := b.measure(ctx, l); err != nil {
		return err
	}
	l.kind, l.targets = report.Elected, targets
	return b.measure(ctx, l)
}

// bursts creates many pods at once.
func (b *bench) bursts(ctx context.Context) error {
	for _, pods := range b.pods {
		l := load{scenario: report.Burst, kind: report.Plain, pods: pods, targets: []string{source}, start: b.allAtOnce}
		if err := b.measure(ctx, l); err != nil {
			return err
		}
		for _, targets := range b.sets {
			l.kind, l.targets = report.Elected, targets
			if err := b.with(ctx, targets, func() error { return b.measure(ctx, l) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// alone creates one pod after the other, each when nothing is left of the one before.
func (b *bench) alone(ctx context.Context) error {
	return b.beside(ctx, load{scenario: report.Alone, pods: b.scaled(alonePods), start: b.oneByOne}, []string{"c2"})
}

// light creates a pod every 200 ms.
func (b *bench) light(ctx context.Context) error {
	l := load{scenario: report.Light, pods: b.scaled(lightPods), start: b.every(lightPause, 0)}
	return b.beside(ctx, l, clusterNames())
}

// churn creates 20 pods per second, and deletes each after ten seconds.
func (b *bench) churn(ctx context.Context) error {
	l := load{
		scenario: report.Churn, pods: b.scaled(churnPods), start: b.every(churnPause, churnLife), remove: b.awaitAll,
	}
	return b.beside(ctx, l, clusterNames())
}

// drain creates many pods at once, and then evicts them all.
func (b *bench) drain(ctx context.Context) error {
	l := load{scenario: report.Drain, pods: b.scaled(drainPods), start: b.allAtOnce, remove: b.evictAll}
	return b.beside(ctx, l, []string{"c2"})
}

// blackhole compares bursts on ten targets while one of them does not answer: right after it was cut off, when nobody
// knows, and once it is known to be unreachable. The latencies are those of pods that other targets took at once.
func (b *bench) blackhole(ctx context.Context) error {
	l := load{
		scenario: report.Blackhole, kind: report.Elected, pods: b.scaled(holePods), targets: tenTargets(),
		start:  b.allAtOnce,
		counts: func(s *sighting) bool { return !s.retried },
	}
	unready := func(ctx context.Context) error { return b.untilReady(ctx, []string{lonely}, metav1.ConditionFalse) }
	return b.with(ctx, l.targets, func() error {
		defer func() { _ = b.heal(context.WithoutCancel(ctx)) }()
		for _, phase := range []struct {
			variant string
			prepare func(context.Context) error
		}{
			{report.Healthy, func(context.Context) error { return nil }},
			{report.JustCut, b.cut},
			{report.FoundOut, unready},
			{report.HealthyAgain, b.healed},
		} {
			if err := phase.prepare(ctx); err != nil {
				return err
			}
			l.variant = phase.variant
			if err := b.measure(ctx, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// healed ends the partition and waits until the target is Ready again.
func (b *bench) healed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := b.heal(ctx); err != nil {
		return err
	}
	return b.untilReady(ctx, []string{lonely}, metav1.ConditionTrue)
}
