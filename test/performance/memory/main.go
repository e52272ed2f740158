// Command memory measures how much memory the manager takes with many targets and proxies.
//
// The manager is the real program, and so are the source cluster's API server and etcd. The targets are simulated: one process serves, at
// an HTTPS address for each, what the manager asks of a target's API server (version, discovery, the ClusterSummary, PodChaperons),
// in the same way, as lists, watches and watches that begin with a list. Each has a ClusterSummary of full size and its share of the
// PodChaperons; the source has their proxies, bound to the targets' virtual nodes, as admission, the scheduler and feedback leave them.
//
// The manager is started twice: with proxies that know nothing of their delegates yet, so that it writes every status, and
// again when all is in place, as after an update. What the second start takes is the result: at its peak (VmHWM), and when it does not
// change any more (VmRSS).
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

// serve, as the first argument, makes this program the process of the simulated targets.
const serve = "serve"

type options struct {
	targets, proxies int
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
	flag.IntVar(&o.proxies, "proxies", 10000, "number of proxies, over all targets")
	flag.StringVar(&o.manager, "manager", ".local/bin/multicluster-scheduler", "program to measure")
	flag.StringVar(&o.result, "result", ".local/bench/memory.json", "file for the result, for the benchmark's report")
	flag.StringVar(&o.bin, "bin", ".local/bin", "folder of kube-apiserver and etcd")
	flag.StringVar(&o.crds, "crds", "charts/multicluster-scheduler/crds", "folder of the custom resource definitions")
	flag.DurationVar(&o.window, "window", 3*time.Minute, "how long memory must not change to count as settled; Go collects garbage at least every two minutes")
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
	run := run{options: o, source: s, targets: targets, dir: dir}
	fmt.Println("starting the manager; every status is to be written …")
	if err := run.once(ctx, nil); err != nil {
		return err
	}
	fmt.Println("starting it again; everything is in place …")
	if err := run.once(ctx, run.settle); err != nil {
		return err
	}
	m := run.measured
	fmt.Printf("%d targets, %d proxies: %.0f MiB settled, %.0f MiB at its peak\n", m.Targets, m.Proxies, m.SettledMiB, m.PeakMiB)
	return write(o.result, m)
}

func write(path string, m report.Memory) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
