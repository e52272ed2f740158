package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
)

func newPartition() *cobra.Command {
	var fromMachine bool
	cmd := &cobra.Command{
		Use: "partition CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Cut clusters off from all others",
		Long: "partition drops all packets between the named clusters (API servers, nodes and pods) and all other clusters, without\n" +
			"an answer to the sender, as a broken line does. This machine still reaches them, so that kubectl can look at them;\n" +
			"with --from-machine, it does not either. `clusters heal` or `clusters up` end it.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Network().Partition(ctx, c.Name(), fromMachine)
			})
		},
	}
	cmd.Flags().BoolVar(&fromMachine, "from-machine", false, "cut them off from this machine, too")
	return cmd
}

func newHeal() *cobra.Command {
	return &cobra.Command{
		Use: "heal [CLUSTER...]", Short: "End what partition did",
		Long: "heal connects the named clusters, or all, with the others again.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Network().Heal(ctx, c.Name())
			})
		},
	}
}

func newStopAPIServer() *cobra.Command {
	return &cobra.Command{
		Use: "stop-apiserver CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Stop the API servers of clusters",
		Long: "stop-apiserver ends the API servers of the named clusters, in order if they end within two seconds. All else goes on\n" +
			"running; connections are refused. `clusters start-apiserver` or `clusters up` end it.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error { return c.StopAPIServer(ctx) })
		},
	}
}

func newStartAPIServer() *cobra.Command {
	return &cobra.Command{
		Use: "start-apiserver CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Start the API servers of clusters again",
		Long: "start-apiserver starts the API servers of the named clusters, if they do not run, and returns when they are ready.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error { return c.StartAPIServer(ctx) })
		},
	}
}
