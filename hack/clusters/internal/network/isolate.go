package network

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
)

// isolation is the nftables table that cuts pods off from the API server of their cluster.
const isolation = "isolation"

// Isolate drops the packets from pods with these addresses to the API server of their own cluster, which has this port,
// without an answer to the sender. The pods reach everything else. It replaces an earlier isolation.
func (n Network) Isolate(ctx context.Context, cluster string, port int, pods []netip.Addr) error {
	if err := n.endIsolation(ctx, cluster); err != nil {
		return err
	}
	_, err := n.nft(ctx, cluster, isolationRules(port, pods), "-f", "-")
	return err
}

// Isolated reports whether pods of a cluster are cut off from its API server.
func (n Network) Isolated(ctx context.Context, cluster string) (bool, error) {
	if !namespace.NetPinned(n.plan.Namespace(cluster)) {
		return false, nil
	}
	return n.hasTable(ctx, cluster, "inet", isolation)
}

func (n Network) endIsolation(ctx context.Context, cluster string) error {
	isolated, err := n.Isolated(ctx, cluster)
	if err != nil || !isolated {
		return err
	}
	_, err = n.nft(ctx, cluster, "delete table inet "+isolation, "-f", "-")
	return err
}

// isolationRules drop what arrives at the API server. The address of its Service has been replaced by its own then.
func isolationRules(port int, pods []netip.Addr) string {
	var rules strings.Builder
	for _, pod := range pods {
		family := "ip"
		if pod.Is6() {
			family = "ip6"
		}
		fmt.Fprintf(&rules, "\t\t%s saddr %s tcp dport %d drop\n", family, pod, port)
	}
	return fmt.Sprintf(`table inet %s {
	chain input {
		type filter hook input priority 0; policy accept;
%s	}
}
`, isolation, rules.String())
}

// hasTable reports whether nftables has a table in the network namespace of a cluster, or of the hub.
func (n Network) hasTable(ctx context.Context, in, family, name string) (bool, error) {
	tables, err := n.nft(ctx, in, "", "list", "tables", family)
	if err != nil {
		return false, err
	}
	for line := range strings.Lines(tables) {
		if strings.TrimSpace(line) == "table "+family+" "+name {
			return true, nil
		}
	}
	return false, nil
}

// nft runs nft in the network namespace of a cluster, or of the hub.
func (n Network) nft(ctx context.Context, in, input string, args ...string) (string, error) {
	return process.Run(ctx, process.Place{Net: n.Place(in)}, input, append([]string{"nft"}, args...)...)
}
