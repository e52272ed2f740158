// Command performance measures how fast elected pods start, beside plain pods in the same run, on simulated nodes.
//
// It expects clusters c1, c2, c3 with simulated nodes and the product deployed (make bench does all that). Every
// measurement is a line of the results file; a table at the end compares them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
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
	options := options{}
	flag.StringVar(&options.kubeconfig, "kubeconfig", ".local/kubeconfig", "kubeconfig with a context for each cluster")
	flag.StringVar(&options.label, "label", "run", "label of this run in the results file")
	flag.StringVar(&options.results, "results", ".local/bench/results.jsonl", "file to which each measurement is appended")
	flag.StringVar(&options.pods, "pods", "100,500", "numbers of pods to start at once")
	flag.StringVar(&options.targets, "targets", "c2;c1,c2,c3", "sets of target clusters, separated by semicolons")
	flag.IntVar(&options.repeat, "repeat", 1, "how often to measure each")
	flag.Parse()
	return run(ctx, options)
}

type options struct {
	kubeconfig, label, results, pods, targets string
	repeat                                    int
}

// result is one measurement, as it stands in the results file.
type result struct {
	Label            string             `json:"label"`
	Kind             string             `json:"kind"` // plain or elected
	Targets          int                `json:"targets"`
	Pods             int                `json:"pods"`
	PodsPerSecond    float64            `json:"pods_per_second"`
	P50Seconds       float64            `json:"p50_seconds"`
	P99Seconds       float64            `json:"p99_seconds"`
	WritesPerPod     float64            `json:"writes_per_pod"`
	SourceWrites     float64            `json:"source_writes_per_pod"`
	CPUSeconds       float64            `json:"cpu_seconds_per_pod"`
	DeleteSeconds    float64            `json:"delete_seconds"`
	CPUByProgram     map[string]float64 `json:"cpu_seconds_per_pod_by_program"`
	WritesByResource map[string]float64 `json:"writes_per_pod_by_resource"`
	Spread           map[string]int     `json:"pods_by_node,omitempty"`
	Time             time.Time          `json:"time"`
}

func run(ctx context.Context, o options) error {
	var counts []int
	for s := range strings.SplitSeq(o.pods, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		if err != nil || n < 1 {
			return fmt.Errorf("--pods: %q is no number of pods", s)
		}
		counts = append(counts, n)
	}
	var sets [][]string
	for s := range strings.SplitSeq(o.targets, ";") {
		sets = append(sets, strings.Split(s, ","))
	}
	b, err := newBench(ctx, o.kubeconfig, sets)
	if err != nil {
		return err
	}
	defer b.close(context.WithoutCancel(ctx))

	var results []result
	for range o.repeat {
		for _, pods := range counts {
			plain, err := b.measure(ctx, burst{kind: "plain", pods: pods, targets: []string{"c1"}})
			if err != nil {
				return err
			}
			results = append(results, plain)
			for _, targets := range sets {
				elected, err := b.measure(ctx, burst{kind: "elected", pods: pods, targets: targets})
				if err != nil {
					return err
				}
				results = append(results, elected)
			}
		}
	}
	printTable(os.Stdout, results)
	return appendResults(o, results)
}

func appendResults(o options, results []result) error {
	if err := os.MkdirAll(dirOf(o.results), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(o.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	for _, r := range results {
		r.Label = o.label
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return file.Close()
}
