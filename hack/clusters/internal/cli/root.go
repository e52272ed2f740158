package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/fleet"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/machine"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/progress"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const about = `clusters builds and runs real Kubernetes clusters on one Linux machine, without Docker.

Each cluster has a network namespace of its own with etcd, the control plane, containerd, one kubelet, kube-proxy
and CoreDNS. On request, kwok simulates more nodes. The pods of all clusters can reach one another. Everything runs as
ordinary processes that outlive this program. Their logs are in .local/clusters/NAME/logs.

Run the program in the root of a checkout, as root. The kubeconfig file is .local/kubeconfig, with a context for each
cluster.`

// Run runs the program and returns its exit code.
func Run(ctx context.Context, args []string, out, errOut io.Writer) int {
	if len(args) > 0 && args[0] == process.TrampolineCommand {
		fmt.Fprintln(errOut, "Error:", process.Trampoline(args[1:]))
		return 1
	}
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(errOut)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(errOut, "Error:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use: "clusters", Short: "Run real Kubernetes clusters on this machine, without Docker", Long: about,
		SilenceErrors: true, SilenceUsage: true,
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(
		newSetUp(), newBuild(), newUp(), newDown(), newStatus(), newImage(), newLoad(),
		newPartition(), newLimit(), newIsolate(), newHeal(), newStopAPIServer(), newStartAPIServer(),
		newFreeze(), newThaw(), newSave(), newSetBack(),
	)
	return root
}

// here returns the clusters of the checkout in the working folder.
func here(cmd *cobra.Command) (fleet.Fleet, error) {
	checkout, err := os.Getwd()
	if err != nil {
		return fleet.Fleet{}, fmt.Errorf("finding the working folder: %w", err)
	}
	if checkout, err = filepath.EvalSymlinks(checkout); err != nil {
		return fleet.Fleet{}, fmt.Errorf("finding the working folder: %w", err)
	}
	if _, err := os.Stat(filepath.Join(checkout, "hack", "clusters", "go.mod")); err != nil {
		return fleet.Fleet{}, errors.New("hack/clusters is missing here: run this in the root of a checkout")
	}
	return fleet.Fleet{Checkout: checkout, Progress: progress.New(cmd.ErrOrStderr()), Now: time.Now}, nil
}

// locked is like open, for a command that changes the clusters. Other such commands wait until the caller calls the
// returned function.
func locked(cmd *cobra.Command) (fleet.Fleet, func(), error) {
	f, err := open(cmd)
	if err != nil {
		return f, nil, err
	}
	unlock, err := f.Lock()
	return f, unlock, err
}

// open returns the clusters of the checkout in the working folder, or an error if the machine cannot run clusters.
func open(cmd *cobra.Command) (fleet.Fleet, error) {
	f, err := here(cmd)
	if err != nil {
		return f, err
	}
	if err := machine.Check(); err != nil {
		return f, err
	}
	f.Registry, err = registry.Open(registry.DefaultDir)
	return f, err
}
