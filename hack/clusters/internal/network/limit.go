package network

import (
	"context"
	"fmt"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
)

// Limit bounds the rate of a cluster's link, in megabits per second and in each direction. It replaces an earlier
// limit.
func (n Network) Limit(ctx context.Context, cluster string, mbit int) error {
	for _, end := range ends(cluster) {
		if _, err := n.tc(ctx, end, limitRule(mbit, end)); err != nil {
			return fmt.Errorf("bounding the rate of a link (does this kernel have CONFIG_NET_SCH_TBF?): %w", err)
		}
	}
	return nil
}

// Limited reports whether the rate of a cluster's link is bounded.
func (n Network) Limited(ctx context.Context, cluster string) (bool, error) {
	for _, end := range ends(cluster) {
		if limited, err := n.limited(ctx, end); limited || err != nil {
			return limited, err
		}
	}
	return false, nil
}

// unlimit ends a limit. It does nothing if there is none.
func (n Network) unlimit(ctx context.Context, cluster string) error {
	for _, end := range ends(cluster) {
		limited, err := n.limited(ctx, end)
		if err != nil {
			return err
		}
		if !limited {
			continue
		}
		if _, err := n.tc(ctx, end, "qdisc del dev "+end.link+" root"); err != nil {
			return err
		}
	}
	return nil
}

// end is an end of a link, in the network namespace of a cluster or of the hub.
type end struct{ namespace, link string }

// ends returns the ends of a cluster's link. What leaves the first one comes from the cluster, and what leaves the
// second one goes to it.
func ends(cluster string) [2]end {
	return [2]end{{cluster, nodeLink}, {hub, cluster}}
}

func (n Network) limited(ctx context.Context, e end) (bool, error) {
	if !n.hasLink(ctx, e.namespace, e.link) {
		return false, nil
	}
	text, err := n.tc(ctx, e, "qdisc show dev "+e.link+" root")
	return strings.HasPrefix(text, "qdisc tbf "), err
}

func (n Network) tc(ctx context.Context, e end, command string) (string, error) {
	args := append([]string{"tc", "-netns", n.plan.Namespace(e.namespace)}, strings.Fields(command)...)
	return process.Run(ctx, process.Place{}, "", args...)
}

// limitRule returns the arguments of tc. A bucket holds what passes in 2 ms, and several packets at least, which are of
// up to 64 KiB on such links. A packet waits for up to 20 ms before it is dropped.
func limitRule(mbit int, e end) string {
	const packets = 256 << 10
	burst := max(mbit*1_000_000/8/500, packets)
	return fmt.Sprintf("qdisc replace dev %s root tbf rate %dmbit burst %d latency 20ms", e.link, mbit, burst)
}
