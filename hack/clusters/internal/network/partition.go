package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Cut says which packets between a cluster and the others are dropped. The zero Cut drops all of them, except those of
// the machine itself.
type Cut struct {
	// FromMachine drops the packets between the cluster and this machine, too.
	FromMachine bool
	// OnlyIn drops only packets to the cluster, OnlyOut only packets from it.
	OnlyIn, OnlyOut bool
	// Percent is how many of a hundred packets are dropped, chosen at random. Zero stands for all.
	Percent int
}

// Partition drops packets between a cluster and the others, without an answer to the sender. The machine itself still
// reaches the cluster, so that tests can read its state, unless the cut says otherwise.
func (n Network) Partition(ctx context.Context, cluster string, cut Cut) error {
	if err := n.endPartition(ctx, cluster); err != nil {
		return err
	}
	_, err := n.nft(ctx, hub, partitionRules(cluster, cut), "-f", "-")
	return err
}

// Heal ends a partition, a limit of the link, and the isolation of pods. It does nothing if there is none.
func (n Network) Heal(ctx context.Context, cluster string) error {
	return errors.Join(n.endPartition(ctx, cluster), n.unlimit(ctx, cluster), n.endIsolation(ctx, cluster))
}

func (n Network) endPartition(ctx context.Context, cluster string) error {
	partitioned, err := n.Partitioned(ctx, cluster)
	if err != nil || !partitioned {
		return err
	}
	_, err = n.nft(ctx, hub, "delete table bridge "+table(cluster), "-f", "-")
	return err
}

// Partitioned reports whether a partition cuts a cluster off.
func (n Network) Partitioned(ctx context.Context, cluster string) (bool, error) {
	return n.hasTable(ctx, hub, "bridge", table(cluster))
}

func partitionRules(cluster string, cut Cut) string {
	rule := func(own, other string) string {
		text := fmt.Sprintf("\t\t%s %q", own, cluster)
		if !cut.FromMachine {
			text += fmt.Sprintf(" %s != %q", other, machinePort)
		}
		if cut.Percent > 0 {
			text += fmt.Sprintf(" numgen random mod 100 < %d", cut.Percent)
		}
		return text + " drop\n"
	}
	var rules string
	if !cut.OnlyIn {
		rules += rule("iifname", "oifname")
	}
	if !cut.OnlyOut {
		rules += rule("oifname", "iifname")
	}
	return fmt.Sprintf(`table bridge %s {
	chain forward {
		type filter hook forward priority 0; policy accept;
%s	}
}
`, table(cluster), rules)
}

// table returns the name of the nftables table that cuts a cluster off. Such a name cannot contain the hyphens of a
// cluster's name.
func table(cluster string) string {
	return "partition_" + strings.ReplaceAll(cluster, "-", "_")
}
