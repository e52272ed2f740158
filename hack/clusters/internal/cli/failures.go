package cli

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/network"
)

// maxMbit is 100 gigabits per second, which no link of these clusters reaches.
const maxMbit = 100_000

func newPartition() *cobra.Command {
	var cut network.Cut
	cmd := &cobra.Command{
		Use: "partition CLUSTER...", Short: "Cut clusters off from all others",
		Long: "partition drops all packets between the named clusters (API servers, nodes and pods) and all other\n" +
			"clusters. The sender gets no answer, as with a broken line. This machine still reaches the\n" +
			"clusters, so that kubectl works there, unless --from-machine cuts it off, too. `clusters heal` or\n" +
			"`clusters up` end the partition.",
		Args: cobra.MinimumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if cut.Percent < 0 || cut.Percent > 100 {
				return fmt.Errorf("--percent is %d: want a number from 1 to 100", cut.Percent)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Network().Partition(ctx, c.Name(), cut)
			})
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&cut.FromMachine, "from-machine", false, "cut the clusters off from this machine, too")
	flags.BoolVar(&cut.OnlyIn, "only-in", false, "drop only packets to the clusters, and let those from them pass")
	flags.BoolVar(&cut.OnlyOut, "only-out", false, "drop only packets from the clusters, and let those to them pass")
	flags.IntVar(&cut.Percent, "percent", 0, "drop so many of a hundred packets, at random (zero: all)")
	cmd.MarkFlagsMutuallyExclusive("only-in", "only-out")
	return cmd
}

func newLimit() *cobra.Command {
	var mbit int
	cmd := &cobra.Command{
		Use: "limit CLUSTER... --mbit NUMBER", Short: "Bound the rate of the links of clusters",
		Long: "limit bounds what the named clusters send to the others and to this machine, and what they receive\n" +
			"from them: so many megabits per second in each direction. `clusters heal` or `clusters up` end it.",
		Args: cobra.MinimumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if mbit < 1 || mbit > maxMbit {
				return fmt.Errorf("--mbit is %d: want a number from 1 to %d", mbit, maxMbit)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Network().Limit(ctx, c.Name(), mbit)
			})
		},
	}
	cmd.Flags().IntVar(&mbit, "mbit", 0, "megabits per second, in each direction")
	return cmd
}

func newIsolate() *cobra.Command {
	return &cobra.Command{
		Use: "isolate CLUSTER ADDRESS...", Short: "Cut pods off from the API server of their own cluster",
		Long: "isolate drops the packets from pods with these addresses to the API server of the named cluster, in\n" +
			"which they run. The pods get no answer, and reach everything else. `clusters heal` or `clusters up`\n" +
			"end it.",
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var pods []netip.Addr
			for _, arg := range args[1:] {
				pod, err := netip.ParseAddr(arg)
				if err != nil {
					return fmt.Errorf("%q is no address of a pod: %w", arg, err)
				}
				pods = append(pods, pod)
			}
			return change(cmd, args[:1], func(ctx context.Context, c *cluster.Cluster) error {
				return c.Isolate(ctx, pods)
			})
		},
	}
}

func newHeal() *cobra.Command {
	return &cobra.Command{
		Use: "heal [CLUSTER...]", Short: "End a partition, a limit of links, or the isolation of pods",
		Long: "heal connects the named clusters, or all clusters, with the others again, at full speed, and their\n" +
			"pods with their API servers.",
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

func newFreeze() *cobra.Command {
	return &cobra.Command{
		Use: "freeze CLUSTER COMPONENT", Args: cobra.ExactArgs(2), Short: "Stop a component without ending it",
		Long: "freeze sends SIGSTOP to a component of a cluster, such as kube-apiserver, etcd or kubelet. Its\n" +
			"connections stay open, and nobody answers. `clusters thaw` continues it.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return signal(cmd, args, syscall.SIGSTOP)
		},
	}
}

func newThaw() *cobra.Command {
	return &cobra.Command{
		Use: "thaw CLUSTER COMPONENT", Args: cobra.ExactArgs(2), Short: "Continue a frozen component",
		RunE: func(cmd *cobra.Command, args []string) error {
			return signal(cmd, args, syscall.SIGCONT)
		},
	}
}

func signal(cmd *cobra.Command, args []string, s syscall.Signal) error {
	return change(cmd, args[:1], func(_ context.Context, c *cluster.Cluster) error {
		return c.Signal(args[1], s)
	})
}

func newSave() *cobra.Command {
	return &cobra.Command{
		Use: "save CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Keep the present data of etcd for set-back",
		Long: "save copies the data of the clusters' etcds, which it stops for a moment. A later copy replaces an\n" +
			"earlier one.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.Save(ctx)
			})
		},
	}
}

func newSetBack() *cobra.Command {
	return &cobra.Command{
		Use: "set-back CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Give etcd the data that save has kept",
		Long: "set-back stops the control plane, kubelet, kube-proxy and CoreDNS of the clusters, replaces the\n" +
			"data of etcd by those of the last `clusters save`, and starts everything again. Containers run on.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return change(cmd, names, func(ctx context.Context, c *cluster.Cluster) error {
				return c.SetBack(ctx)
			})
		},
	}
}
