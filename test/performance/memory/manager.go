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
	// reading is how often memory is read; spread is how far readings may be apart that count as equal.
	reading = 5 * time.Second
	spread  = 0.02
)

// run is what the manager is started in.
type run struct {
	options
	source  *sourceCluster
	targets *targets
	dir     string
	// measured is what settle found.
	measured report.Memory
}

// once starts the manager, waits until it has done everything, calls then, if that is not nil, and stops it.
func (r *run) once(ctx context.Context, then func(ctx context.Context, pid int) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
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
	if err := r.untilDone(ctx); err != nil || then == nil {
		return err
	}
	return then(ctx, command.Process.Pid)
}

// settle waits until the memory of the manager's process does not change any more.
func (r *run) settle(ctx context.Context, pid int) error {
	m := report.Memory{Targets: r.options.targets, Proxies: r.proxies, Time: time.Now().UTC()}
	var readings []float64
	err := wait.PollUntilContextCancel(ctx, reading, true, func(context.Context) (bool, error) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			return false, err
		}
		m.SettledMiB, err = report.ParseMemory(string(status), "VmRSS")
		if err != nil {
			return false, err
		}
		m.PeakMiB, err = report.ParseMemory(string(status), "VmHWM")
		readings = append(readings, m.SettledMiB)
		return settled(readings, int(r.window/reading)), err
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager's memory settles (it was %.0f MiB): %w", readings, err)
	}
	m.Version, err = r.version(ctx)
	r.measured = m
	return err
}

// settled tells whether the last readings are about equal.
func settled(readings []float64, last int) bool {
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

// start runs the manager as its Deployment does, but for the network that it is in, and without a Lease: there is one replica. When it
// ends, it says so to end and closes the channel.
func (r *run) start(end context.CancelCauseFunc) (*exec.Cmd, <-chan struct{}, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, nil, err
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, nil, err
	}
	config := fmt.Sprintf(`apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
clusterID: %s
leaderElection: {enabled: false}
metrics: {bindAddress: "127.0.0.1:0"}
health: {bindAddress: "127.0.0.1:0"}
webhook: {certDir: %s, port: %d}
kubeletAPI: {port: %d}
`, clusterID, r.dir, ports[0], ports[1])
	for name, data := range map[string][]byte{"tls.crt": certificate, "tls.key": key, "kubeconfig": r.source.kubeconfig, "config.yaml": []byte(config)} {
		if err := os.WriteFile(filepath.Join(r.dir, name), data, 0o600); err != nil {
			return nil, nil, err
		}
	}
	output, err := os.OpenFile(filepath.Join(r.dir, "manager.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	command := exec.Command(r.manager, "--config", filepath.Join(r.dir, "config.yaml")) //nolint:noctx // stopped by a signal, in order
	command.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(r.dir, "kubeconfig"), "POD_NAMESPACE="+installedIn, "POD_IP=127.0.0.1",
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

// freePorts are some that nothing listens at, for the moment.
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

// untilDone waits until every target is watched and Ready, and every proxy shows that its delegate runs.
func (r *run) untilDone(ctx context.Context) error {
	var last string
	err := wait.PollUntilContextCancel(ctx, glance, true, func(ctx context.Context) (bool, error) {
		state, err := r.targets.state(ctx)
		if err != nil {
			return false, err
		}
		if len(state.Unexpected) > 0 {
			return false, fmt.Errorf("the manager asks targets for what is not simulated: %s", strings.Join(state.Unexpected, ", "))
		}
		ready, running, err := r.progress(ctx)
		last = fmt.Sprintf("%d targets are watched, %d are ready; all proxies run: %t", state.Watches, ready, running)
		return state.Watches >= r.options.targets && ready == r.options.targets && running, err
	})
	if err != nil {
		return fmt.Errorf("waiting until the manager has done everything (%s): %w", last, err)
	}
	return nil
}

func (r *run) progress(ctx context.Context) (ready int, running bool, err error) {
	targets, pending := &v1alpha1.ClusterTargetList{}, &corev1.PodList{}
	if err := r.source.client.List(ctx, targets); err != nil {
		return 0, false, err
	}
	for _, target := range targets.Items {
		conditions := target.Status.Conditions
		if meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionConnected) && meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionReady) {
			ready++
		}
	}
	err = r.source.client.List(ctx, pending, client.InNamespace(namespace), client.MatchingFields{"status.phase": string(corev1.PodPending)},
		&client.ListOptions{Limit: 1, Raw: &metav1.ListOptions{}})
	return ready, len(pending.Items) == 0, err
}
