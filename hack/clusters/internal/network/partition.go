package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
)

// Partition drops all packets between a cluster and the others, without an answer to the sender. The machine itself
// still reaches the cluster, so that tests can read its state, unless fromMachine is set.
func (n Network) Partition(ctx context.Context, cluster string, fromMachine bool) error {
	if err := n.Heal(ctx, cluster); err != nil {
		return err
	}
	_, err := n.nft(ctx, partitionRules(cluster, fromMachine), "-f", "-")
	return err
}

// Heal ends a partition. It does nothing if there is none.
func (n Network) Heal(ctx context.Context, cluster string) error {
	partitioned, err := n.Partitioned(ctx, cluster)
	if err != nil || !partitioned {
		return err
	}
	_, err = n.nft(ctx, "delete table bridge "+table(cluster), "-f", "-")
	return err
}

// Partitioned reports whether a partition cuts a cluster off.
func (n Network) Partitioned(ctx context.Context, cluster string) (bool, error) {
	tables, err := n.nft(ctx, "", "list", "tables", "bridge")
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(tables) {
		if strings.TrimSpace(line) == "table bridge "+table(cluster) {
			return true, nil
		}
	}
	return false, nil
}

func (n Network) nft(ctx context.Context, input string, args ...string) (string, error) {
	return process.Run(ctx, process.Place{Net: n.Place(hub)}, input, append([]string{"nft"}, args...)...)
}

func partitionRules(cluster string, fromMachine bool) string {
	except := func(direction string) string {
		if fromMachine {
			return ""
		}
		return fmt.Sprintf(" %s != %q", direction, machinePort)
	}
	return fmt.Sprintf(`table bridge %s {
	chain forward {
		type filter hook forward priority 0; policy accept;
		iifname %q%s drop
		oifname %q%s drop
	}
}
`, table(cluster), cluster, except("oifname"), cluster, except("iifname"))
}

// table returns the name of the nftables table that cuts a cluster off. Such a name cannot contain the hyphens of a
// cluster's name.
func table(cluster string) string {
	return "partition_" + strings.ReplaceAll(cluster, "-", "_")
}
