package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

const (
	patience = 15 * time.Minute
	glance   = time.Second
	// quiet is how long the manager must not have written to targets. A new process writes each copy anew, as it cannot
	// know what changed meanwhile.
	quiet = 5 * time.Second
	// reading is the interval of reading the memory. spread is the share by which equal readings may differ.
	reading = 5 * time.Second
	spread  = 0.02
)

// run is the environment in which the manager is started.
type run struct {
	options
	source  *sourceCluster
	targets *targets
	dir     string
	before  state // when the manager was started
	// measured is the result of twice.
	measured report.Memory
}

// twice starts the manager when every status and copy has to be written, and again, to measure it, when everything is
// in place.
func (r *run) twice(ctx context.Context) error {
	fmt.Println("starting the manager, which has to write everything …")
	if err := r.once(ctx, &r.measured.First, nil); err != nil {
		return err
	}
	fmt.Println("starting it again, with everything in place …")
	return r.once(ctx, &r.measured.Again, func(ctx context.Context, pid int) error {
		if err := r.awaitSteady(ctx, pid); err != nil || !r.following.any() {
			return err
		}
		return r.changeWide(ctx, pid)
	})
}

// once starts the manager, waits until it has done everything, calls then unless it is nil, and stops the manager.
func (r *run) once(ctx context.Context, cost *report.Start, then func(ctx context.Context, pid int) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if r.before, err = r.targets.state(ctx); err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	began := time.Now()
	command, ended, err := r.start(end)
	if err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	defer func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = errors.Join(err, cause)
		}
	}()
	if err := r.untilDone(ctx); err != nil {
		return err
	}
	cost.Seconds = (time.Since(began) - quiet).Seconds()
	after, err := r.targets.state(ctx)
	cost.Requests, cost.Kinds = after.since(r.before)
	if cost.CPU, err = cpuOf(command.Process.Pid, err); err != nil || then == nil {
		return err
	}
	return then(ctx, command.Process.Pid)
}

// cpuOf returns the CPU time that a process has taken, in seconds, or the error.
func cpuOf(pid int, err error) (float64, error) {
	if err != nil {
		return 0, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, seconds, err := report.ParseStat(string(stat))
	return seconds, err
}

// awaitSteady waits until the memory of the manager's process no longer changes.
func (r *run) awaitSteady(ctx context.Context, pid int) error {
	m := &r.measured
	m.Targets, m.Proxies, m.Time = r.options.targets, r.proxies, time.Now().UTC()
	var readings, used []float64
	err := wait.PollUntilContextCancel(ctx, reading, true, func(context.Context) (bool, error) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return false, err
		}
		m.SteadyMiB, err = report.ParseMemory(string(status), "VmRSS")
		if err != nil {
			return false, err
		}
		m.PeakMiB, err = report.ParseMemory(string(status), "VmHWM")
		seconds, err := cpuOf(pid, err)
		readings, used = append(readings, m.SteadyMiB), append(used, seconds)
		return steady(readings, int(r.window/reading)), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager's memory settles (the readings are %.0f MiB): %w", readings, err)
	}
	if n := min(int(r.window/reading), len(used)-1); n > 0 {
		m.IdleCPU = (used[len(used)-1] - used[len(used)-1-n]) / (time.Duration(n) * reading).Minutes()
	}
	m.Version, err = r.version(ctx)
	return err
}

// steady reports whether the last readings are about equal.
func steady(readings []float64, last int) bool {
	if len(readings) < last {
		return false
	}
	of := readings[len(readings)-last:]
	return slices.Max(of)-slices.Min(of) <= spread*slices.Max(of)
}

func (r *run) version(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, r.manager, "--version").Output()
	fields := strings.Fields(string(out))
	if err != nil || len(fields) == 0 {
		return "", fmt.Errorf("asking the manager for its version: %w", err)
	}
	return fields[len(fields)-1], nil
}

// configuration is the manager's: cluster ID, folder of certificates, and two ports are to be filled in.
const configuration = `apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
clusterID: %s
leaderElection: {enabled: false}
metrics: {bindAddress: "127.0.0.1:0"}
health: {bindAddress: "127.0.0.1:0"}
webhook: {certDir: %s, port: %d}
kubeletAPI: {port: %d}
`

// start runs the manager as its Deployment does, except for the network, and without a Lease, as there is one replica.
// When the manager ends, start calls end with the reason and closes the channel.
func (r *run) start(end context.CancelCauseFunc) (*exec.Cmd, <-chan struct{}, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, nil, err
	}
	for name, data := range map[string][]byte{
		"tls.crt": certificate, "tls.key": key, "kubeconfig": r.source.kubeconfig,
		"config.yaml": fmt.Appendf(nil, configuration, clusterID, r.dir, ports[0], ports[1]),
	} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o600); err != nil {
			return nil, nil, err
		}
	}
	output, err := os.OpenFile(filepath.Join(r.dir, "manager.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	//nolint:noctx // a signal ends the process, so that it can stop in order
	command := exec.Command(r.manager, "--config", filepath.Join(r.dir, "config.yaml"))
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(r.dir, "kubeconfig"),
		"POD_NAMESPACE="+installedIn, "POD_IP=127.0.0.1",
		"GOMEMLIMIT=1GiB", "HTTP2_READ_IDLE_TIMEOUT_SECONDS=10", "HTTP2_PING_TIMEOUT_SECONDS=5")
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		return nil, nil, errors.Join(err, output.Close())
	}
	ended := make(chan struct{})
	go func() {
		end(errors.Join(errors.New("the manager ended"), command.Wait(), output.Close()))
		close(ended)
	}()
	return command, ended, nil
}

// freePorts returns ports at which nothing listens at the moment.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// untilDone waits until every target is watched and Ready, every proxy is Running, every copy is there, and the manager
// has nothing more to send.
func (r *run) untilDone(ctx context.Context) error {
	var last string
	writes, since := 0, time.Now()
	err := wait.PollUntilContextCancel(ctx, glance, true, func(ctx context.Context) (bool, error) {
		state, err := r.targets.state(ctx)
		if err != nil {
			return false, err
		}
		if len(state.Unexpected) > 0 {
			return false, fmt.Errorf("the manager sends targets requests that are not simulated: %s",
				strings.Join(state.Unexpected, ", "))
		}
		ready, running, err := r.progress(ctx)
		if n := state.writes(); n != writes {
			writes, since = n, time.Now()
		}
		watched, copied := state.Watches["podchaperons"], r.copied(state)
		last = fmt.Sprintf("%d targets are watched, %d are Ready; all proxies run: %t; copies in targets: %v",
			watched, ready, running, state.Objects)
		done := watched >= r.options.targets && ready == r.options.targets && running && copied
		return done && time.Since(since) >= quiet, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager has done everything (%s): %w", last, err)
	}
	return nil
}

// copied says whether the targets have all copies.
func (r *run) copied(s state) bool {
	for resource, n := range r.following.copies(r.options) {
		if s.Objects[resource] < n {
			return false
		}
	}
	return true
}

// progress returns how many targets are Ready, and whether no proxy is Pending.
func (r *run) progress(ctx context.Context) (ready int, running bool, err error) {
	targets, pending := &v1alpha1.ClusterTargetList{}, &corev1.PodList{}
	if err := r.source.client.List(ctx, targets); err != nil {
		return 0, false, err
	}
	for _, target := range targets.Items {
		conditions := target.Status.Conditions
		connected := meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConnected)
		if connected && meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	err = r.source.client.List(ctx, pending, client.InNamespace(namespace),
		client.MatchingFields{"status.phase": string(corev1.PodPending)},
		&client.ListOptions{Limit: 1, Raw: &metav1.ListOptions{}})
	return ready, len(pending.Items) == 0, err
}
