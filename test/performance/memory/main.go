// Command memory measures how much memory the manager takes with many targets and proxies.
//
// The manager is the real program, and so are the API server and etcd of the source. The targets are simulated. One
// process has an HTTPS address for each of them, and answers as a target's API server does. It serves all that the
// manager asks for: version, discovery, the ClusterSummary and PodChaperons, as lists, watches, and watches that begin
// with a list. Each target has a ClusterSummary of full size and its share of the PodChaperons. The source has the
// proxies, bound to the targets' virtual nodes, as admission, the scheduler and feedback leave them.
//
// The manager is started twice. At first the proxies know nothing of their delegates, so that the manager writes every
// status, and every copy of what follows the proxies. The second time everything is in place, as after an update. The
// result is the memory of the second start: its peak (VmHWM), and the resident memory that no longer changes (VmRSS).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// serve is the first argument of the process that simulates the targets.
const serve = "serve"

type options struct {
	targets, proxies int
	following        following
	manager, result  string
	bin, crds        string
	window           time.Duration
}

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "memory:", err)
		os.Exit(1)
	}
}

func start() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == serve {
		return serveTargets(ctx, os.Args[2])
	}
	ctrllog.SetLogger(klog.Background())
	o := options{}
	flag.IntVar(&o.targets, "targets", 100, "number of targets")
	flag.IntVar(&o.proxies, "proxies", 10000, "number of proxies, of all targets together")
	flag.IntVar(&o.following.configMaps, "configmaps", 0, "number of ConfigMaps that the proxies refer to in turn")
	flag.IntVar(&o.following.secrets, "secrets", 0, "number of Secrets that the proxies refer to in turn")
	flag.IntVar(&o.following.services, "services", 0, "number of Services that select the proxies in turn")
	flag.StringVar(&o.manager, "manager", ".local/bin/multicluster-scheduler", "the manager's program")
	flag.StringVar(&o.result, "result", ".local/bench/memory.json",
		"file for the result, which the benchmark's report contains")
	flag.StringVar(&o.bin, "bin", ".local/bin", "folder with kube-apiserver and etcd")
	flag.StringVar(&o.crds, "crds", "charts/multicluster-scheduler/crds", "folder with the custom resource definitions")
	flag.DurationVar(&o.window, "window", 3*time.Minute,
		"time without a change after which memory is settled; Go collects garbage at least every two minutes")
	flag.Parse()
	return measure(ctx, o)
}

func measure(ctx context.Context, o options) (err error) {
	dir, err := os.MkdirTemp("", "memory-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
			return
		}
		err = fmt.Errorf("%w (logs are in %s)", err, dir)
	}()
	s, err := startSource(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	fmt.Printf("creating %d proxies …\n", o.proxies)
	if err := s.fill(ctx, o, filepath.Join(dir, "targets")); err != nil {
		return fmt.Errorf("filling the source cluster: %w", err)
	}
	targets, err := startTargets(ctx, dir)
	if err != nil {
		return fmt.Errorf("starting the simulated targets: %w", err)
	}
	defer targets.stop()
	if err := s.connect(ctx, targets.found); err != nil {
		return fmt.Errorf("connecting the source to the simulated targets: %w", err)
	}
	r := run{options: o, source: s, targets: targets, dir: dir}
	if err := r.twice(ctx); err != nil {
		return err
	}
	m := r.measured
	const text = "%d targets, %d proxies: peak %.0f MiB, settled %.0f MiB\n"
	fmt.Printf(text, m.Targets, m.Proxies, m.PeakMiB, m.SteadyMiB)
	describe(m)
	return writeResult(o.result, m)
}

// describe prints what the starts and the changes cost.
func describe(m report.Memory) {
	const text = "%s: %.0f s, %.1f s of CPU time, %d requests to targets\n"
	fmt.Printf(text, "everything to do", m.First.Seconds, m.First.CPU, m.First.Requests)
	fmt.Printf(text, "everything in place", m.Again.Seconds, m.Again.CPU, m.Again.Requests)
	fmt.Printf("idle: %.1f s of CPU time in a minute\n", m.IdleCPU)
	for _, c := range m.Changes {
		fmt.Printf("%s: %d requests, %d bytes sent, %d received, %.2f s of CPU time\n",
			c.What, c.Requests, c.Sent, c.Received, c.CPU)
	}
}

func writeResult(path string, m report.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
