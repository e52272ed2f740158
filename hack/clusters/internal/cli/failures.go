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
		Long: "partition drops all packets between the named clusters (API servers, nodes and pods) and all other\n" +
			"clusters. The sender gets no answer, as with a broken line. This machine still reaches the\n" +
			"clusters, so that kubectl works there, unless --from-machine cuts it off, too. `clusters heal` or\n" +
			"`clusters up` end the partition.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Network().Partition(ctx, c.Name(), fromMachine)
			})
		},
	}
	cmd.Flags().BoolVar(&fromMachine, "from-machine", false, "cut the clusters off from this machine, too")
	return cmd
}

func newHeal() *cobra.Command {
	return &cobra.Command{
		Use: "heal [CLUSTER...]", Short: "End a partition",
		Long: "heal connects the named clusters, or all clusters, with the others again.",
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
		Long: "stop-apiserver asks the API servers of the named clusters to end, and kills them after two\n" +
			"seconds. The other components keep running, and the machine refuses connections to the API\n" +
			"servers. `clusters start-apiserver` or `clusters up` start the API servers again.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.StopAPIServer(ctx)
			})
		},
	}
}

func newStartAPIServer() *cobra.Command {
	return &cobra.Command{
		Use: "start-apiserver CLUSTER...", Args: cobra.MinimumNArgs(1),
		Short: "Start the API servers of clusters again",
		Long: "start-apiserver starts the API servers of the named clusters, unless they run. It returns when all\n" +
			"of them are ready.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.StartAPIServer(ctx)
			})
		},
	}
}
