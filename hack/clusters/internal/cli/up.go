package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/build"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/fleet"
)

type upFlags struct {
	fake        cluster.FakeNodes
	gracePeriod time.Duration
	kubernetes  map[string]string
	gates       string
	dualStack   bool
	containerd2 bool
}

func newUp() *cobra.Command {
	var flags upFlags
	cmd := &cobra.Command{
		Use: "up CLUSTER...", Args: cobra.MinimumNArgs(1), Short: "Start clusters, or repair them",
		Long: "up builds missing programs and makes the named clusters run, whatever their state: it starts new\n" +
			"clusters, restarts components that died, heals partitions, and does not touch components that run.\n" +
			"Without a flag, a setting stays as it was. The command returns when API servers and nodes are\n" +
			"ready and every node holds localhost/whoami:dev. Clusters do not outlive a reboot of the machine:\n" +
			"after it, they start empty.\n\n" +
			"A cluster can run another minor version of Kubernetes than the others. Its components are built when\n" +
			"they are first asked for, which takes some minutes.",
		Example: "  clusters up c1 c2\n  clusters up c2 --fake-nodes 100\n  clusters up c1 c2 --kubernetes c2=1.36",
	}
	cmd.Flags().IntVar(&flags.fake.Count, "fake-nodes", 0,
		"how many nodes kwok simulates in each cluster, beside the real one")
	cmd.Flags().StringVar(&flags.fake.CPU, "fake-node-cpu", "32", "processors of a new simulated node")
	cmd.Flags().StringVar(&flags.fake.Memory, "fake-node-memory", "256Gi", "memory of a new simulated node")
	cmd.Flags().IntVar(&flags.fake.Pods, "fake-node-pods", 110, "how many pods fit on a new simulated node")
	cmd.Flags().DurationVar(&flags.gracePeriod, "node-monitor-grace-period", 0,
		"how long a node may be silent before it counts as unreachable (zero: the default of Kubernetes)")
	cmd.Flags().StringToStringVar(&flags.kubernetes, "kubernetes", nil,
		"minor versions of Kubernetes of clusters, as in c2=1.36. A cluster with data may not start in an older one")
	cmd.Flags().StringVar(&flags.gates, "feature-gates", "",
		"feature gates of the API servers and kubelets, as in A=true,B=false (empty: the defaults of Kubernetes)")
	cmd.Flags().BoolVar(&flags.containerd2, "containerd2", false,
		"containerd 2 in place of Debian's, for volumes of images and for devices. It is built when first asked for")
	cmd.Flags().BoolVar(&flags.dualStack, "dual-stack", false,
		"IPv6 beside IPv4, for pods on the real nodes and for new Services")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if err := fleet.CheckNames(names); err != nil {
			return err
		}
		f, unlock, err := locked(cmd)
		if err != nil {
			return err
		}
		defer unlock()
		if err := checkVersions(f.Checkout, names, flags.kubernetes); err != nil {
			return err
		}
		err = f.Up(cmd.Context(), names, func(name string, spec cluster.Spec) cluster.Spec {
			return flags.change(cmd, name, spec)
		})
		if err != nil {
			return err
		}
		f.Progress.Line("kubeconfig: %s", f.Kubeconfig())
		return f.Status(cmd.Context(), cmd.OutOrStdout())
	}
	return cmd
}

// checkVersions checks the versions that are chosen for clusters. It replaces the checkout's own version by nothing, as
// a specification has it.
func checkVersions(checkout string, clusters []string, chosen map[string]string) error {
	own, err := build.DefaultMinor(checkout)
	if err != nil {
		return err
	}
	for name, minor := range chosen {
		if !slices.Contains(clusters, name) {
			return fmt.Errorf("--kubernetes %s=%s: the cluster %q is not one of those to start: %s",
				name, minor, name, strings.Join(clusters, ", "))
		}
		if minor == own {
			chosen[name] = ""
			continue
		}
		if _, err := build.Kubernetes(checkout, minor); err != nil {
			return fmt.Errorf("--kubernetes %s=%s: %w", name, minor, err)
		}
	}
	return nil
}

// change applies the given flags to the spec of a cluster. A new cluster gets the defaults of the other flags.
func (u upFlags) change(cmd *cobra.Command, name string, spec cluster.Spec) cluster.Spec {
	given := cmd.Flags().Changed
	fake := &spec.FakeNodes
	if given("fake-nodes") {
		fake.Count = u.fake.Count
	}
	if given("fake-node-cpu") || fake.CPU == "" {
		fake.CPU = u.fake.CPU
	}
	if given("fake-node-memory") || fake.Memory == "" {
		fake.Memory = u.fake.Memory
	}
	if given("fake-node-pods") || fake.Pods == 0 {
		fake.Pods = u.fake.Pods
	}
	if given("node-monitor-grace-period") {
		spec.NodeMonitorGracePeriod = u.gracePeriod
	}
	if minor, chosen := u.kubernetes[name]; chosen {
		spec.Kubernetes = minor
	}
	if given("dual-stack") {
		spec.DualStack = u.dualStack
	}
	if given("containerd2") {
		spec.Containerd2 = u.containerd2
	}
	if given("feature-gates") {
		spec.FeatureGates = u.gates
	}
	return spec
}

func newDown() *cobra.Command {
	return &cobra.Command{
		Use: "down [CLUSTER...]", Short: "Remove clusters and everything that they hold",
		Long: "down kills all processes of the named clusters, or of all clusters of this checkout, pods\n" +
			"included. It removes their state, network and mount namespaces, links and control groups. Built\n" +
			"programs and images stay. Clusters that do not exist are no error.",
		RunE: func(cmd *cobra.Command, names []string) error {
			f, unlock, err := locked(cmd)
			if err != nil {
				return err
			}
			defer unlock()
			return f.Down(cmd.Context(), names)
		},
	}
}

func newStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status", Args: cobra.NoArgs, Short: "Show the clusters of this checkout",
		Long: "status shows, for each cluster, the components that run, whether a partition cuts it off, or\n" +
			"its link is limited, the address of its API server, whether its real node is ready, and the\n" +
			"numbers of simulated nodes and of pods.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, err := open(cmd)
			if err != nil {
				return err
			}
			return f.Status(cmd.Context(), cmd.OutOrStdout())
		},
	}
}

func newLoad() *cobra.Command {
	return &cobra.Command{
		Use: "load ARCHIVE [CLUSTER...]", Args: cobra.MinimumNArgs(1), Short: "Import an image archive into nodes",
		Long: "load imports an image archive, as `docker save` or `clusters image` write it, into the node of\n" +
			"each named cluster, or of all clusters. Pods that use the image must not have imagePullPolicy\n" +
			"Always. Running pods keep the image that they have.",
		RunE: func(cmd *cobra.Command, args []string) error {
			archive, err := filepath.Abs(args[0])
			if err != nil {
				return fmt.Errorf("finding %q: %w", args[0], err)
			}
			return change(cmd, args[1:], func(ctx context.Context, c *cluster.Cluster) error {
				return c.LoadImage(ctx, archive)
			})
		},
	}
}

// change calls do for the named clusters, or for all, while no other command changes clusters.
func change(cmd *cobra.Command, names []string, do func(context.Context, *cluster.Cluster) error) error {
	f, unlock, err := locked(cmd)
	if err != nil {
		return err
	}
	defer unlock()
	return f.Each(cmd.Context(), names, do)
}
