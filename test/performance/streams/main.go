// Command streams measures the throughput of exec, attach, forwarded ports and logs: by a virtual node, and directly in
// the target, in the same run.
//
// It expects the clusters c1 and c2 with the product deployed (make bench-streams does that). It creates an elected pod
// in c1 that runs in c2. Each transfer goes once to the proxy in c1, and once to its delegate in c2, by the API server
// of that cluster and with the client that kubectl has. The ways take turns: the next round begins with the other one.
// The result is the medians and their ratio.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// deadline bounds one transfer.
const deadline = 5 * time.Minute

type options struct {
	kubeconfig, result string
	mb, rounds         int
	links              links
}

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "streams:", err)
		os.Exit(1)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // A second signal ends the cleanup, too.
	ctrllog.SetLogger(klog.Background())
	klog.SetLogger(logr.Discard()) // Forwarders log when they end.
	o := options{}
	flag.StringVar(&o.kubeconfig, "kubeconfig", ".local/kubeconfig", "kubeconfig with a context for each of c1 and c2")
	flag.StringVar(&o.result, "result", ".local/bench/streams.json",
		"file for the result, which the benchmark's report contains")
	flag.IntVar(&o.mb, "mb", 100, "size of each transfer in megabytes")
	flag.IntVar(&o.rounds, "rounds", 3, "number of rounds, of which the medians count")
	flag.Var(&o.links, "links",
		"rates of the clusters' links in megabits per second, with which everything is measured again")
	flag.Parse()
	if o.mb < 1 || o.rounds < 1 {
		return errors.New("-mb and -rounds are at least 1")
	}
	return measure(ctx, o)
}

func measure(ctx context.Context, o options) (err error) {
	result := &report.Streams{Time: time.Now().UTC(), MB: o.mb}
	if result.Version, err = version(ctx); err != nil {
		return err
	}
	if result.Loads[0], err = load(); err != nil {
		return err
	}
	s, err := setUp(ctx, o.kubeconfig)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadline)
		defer cancel()
		err = errors.Join(err, s.close(ctx))
	}()
	if err != nil {
		return err
	}
	if result.Kinds, err = s.compareAll(ctx, o); err != nil {
		return err
	}
	if result.Limited, err = s.compareLimited(ctx, o); err != nil {
		return err
	}
	if result.Loads[1], err = load(); err != nil {
		return err
	}
	fmt.Printf("Load average: %s before, %s at the end.\n", result.Loads[0], result.Loads[1])
	return write(o.result, result)
}

// compareAll measures each kind of stream on both ways.
func (s *side) compareAll(ctx context.Context, o options) ([]report.Stream, error) {
	var streams []report.Stream
	for _, kind := range kinds() {
		stream, err := s.compare(ctx, o, kind)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", kind.name, err)
		}
		fmt.Printf("%s\n", stream.Row())
		streams = append(streams, stream)
	}
	return streams, nil
}

// compare measures a kind of stream on both ways, after one transfer on each that does not count.
func (s *side) compare(ctx context.Context, o options, kind kind) (report.Stream, error) {
	stream := report.Stream{Kind: kind.name}
	for round := range o.rounds + 1 {
		speeds := map[*way]float64{}
		ways := []*way{s.virtual, s.direct}
		if round%2 == 1 {
			ways[0], ways[1] = ways[1], ways[0]
		}
		for _, way := range ways {
			speed, err := s.time(ctx, way, kind, int64(o.mb)*1_000_000)
			if err != nil {
				return stream, fmt.Errorf("%s: %w", way.name, err)
			}
			speeds[way] = speed
		}
		if round > 0 {
			stream.Virtual = append(stream.Virtual, speeds[s.virtual])
			stream.Directly = append(stream.Directly, speeds[s.direct])
		}
	}
	return stream, nil
}

// time returns the megabytes per second of a transfer.
func (*side) time(ctx context.Context, way *way, kind kind, size int64) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	begin := time.Now()
	got, err := kind.carry(ctx, way, size)
	if err != nil {
		return 0, err
	}
	if got != size {
		return 0, fmt.Errorf("%d of %d bytes arrived", got, size)
	}
	return float64(size) / 1e6 / time.Since(begin).Seconds(), nil
}

// load returns Linux's load average of the last minute.
func load() (string, error) {
	text, err := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first, err
}

// version returns the version of the product that was built last.
func version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, ".local/bin/multicluster-scheduler", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking the manager for its version: %w", err)
	}
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return "", errors.New("the manager has no version")
	}
	return words[len(words)-1], nil
}

func write(path string, result *report.Streams) error {
	text, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
