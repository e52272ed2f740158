package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/connect"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/disconnect"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/explain"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/status"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/version"
)

// Run runs the command with its arguments, prints an error, and returns the exit code.
func Run(ctx context.Context, streams genericiooptions.IOStreams, args []string) int {
	root := New(streams)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(streams.ErrOut, "error: %v\n", err)
		return 1
	}
	return 0
}

// New returns the command with its subcommands.
func New(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-multicluster",
		Short: "Connect clusters, so that pods of one run in others, and show their status",
		Long: "Connect clusters, so that pods of one (the source) run in others (its targets), and show their status." +
			"\n\nThis is a kubectl plug-in: put it in the PATH, and call it as `kubectl multicluster`.",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl multicluster"},
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	kubeconfig := &cluster.Kubeconfig{}
	kubeconfig.Flags().AddFlags(root.PersistentFlags())
	root.AddCommand(
		connect.New(kubeconfig, streams),
		disconnect.New(kubeconfig, streams),
		status.New(kubeconfig, streams),
		explain.New(kubeconfig, streams),
		newVersion(streams),
	)
	return root
}

func newVersion(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(streams.Out, version.Version)
			return err
		},
	}
}
