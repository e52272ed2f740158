package network

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/namespace"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/process"
	"github.com/multicluster-scheduler/multicluster-scheduler/hack/clusters/internal/registry"
)

const (
	hub         = "hub"
	bridge      = "br0"
	machinePort = "machine"
	nodeLink    = "eth0"

	ipv6Bits = 96 // of an IPv6 address, before the IPv4 address for which it stands
)

// Network is the network of one checkout.
type Network struct {
	plan registry.Plan
}

// New returns the network with the addresses and names of a plan.
func New(plan registry.Plan) Network {
	return Network{plan: plan}
}

// InUse reports whether the machine already has an address in a range, or a route to a part of the range.
func InUse(subnet netip.Prefix) bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && prefix.Overlaps(subnet) {
			return true
		}
	}
	routes, err := os.ReadFile("/proc/net/route")
	return err == nil && routed(string(routes), subnet)
}

// EnsureHub makes the bridge and the machine's link to it, unless they exist.
func (n Network) EnsureHub(ctx context.Context) error {
	if err := n.ensureNamespace(ctx, hub); err != nil {
		return err
	}
	if !n.hasLink(ctx, hub, bridge) {
		if err := n.ip(ctx, hub, "link add "+bridge+" type bridge forward_delay 0"); err != nil {
			return fmt.Errorf("making a bridge (does this kernel have CONFIG_BRIDGE?): %w", err)
		}
	}
	if err := n.ensurePort(ctx, "", n.plan.Link(), machinePort); err != nil {
		return err
	}
	if err := n.ip(ctx, hub, "link set lo up", "link set "+bridge+" up"); err != nil {
		return err
	}
	return n.ip(ctx, "",
		"link set "+n.plan.Link()+" up",
		fmt.Sprintf("addr replace %s/24 dev %s", n.plan.Gateway(), n.plan.Link()))
}

// Ensure makes the namespace, the link and the routes of a cluster, unless they exist.
func (n Network) Ensure(ctx context.Context, cluster string, index int) error {
	if err := n.ensureNamespace(ctx, cluster); err != nil {
		return err
	}
	if err := n.ensurePort(ctx, cluster, nodeLink, cluster); err != nil {
		return err
	}
	commands := []string{
		"link set lo up",
		"link set " + nodeLink + " up",
		fmt.Sprintf("addr replace %s/24 dev %s", n.plan.Node(index), nodeLink),
		fmt.Sprintf("route replace default via %s", n.plan.Gateway()),
	}
	for other := 1; other <= registry.MaxClusters; other++ {
		if other != index {
			commands = append(commands, fmt.Sprintf("route replace %s via %s", n.plan.Pods(other), n.plan.Node(other)))
		}
	}
	if err := n.ip(ctx, cluster, commands...); err != nil {
		return err
	}
	route := fmt.Sprintf("route replace %s via %s", n.plan.Pods(index), n.plan.Node(index))
	if err := n.ip(ctx, "", route); err != nil {
		return err
	}
	return namespace.InNet(n.plan.Namespace(cluster), forward)
}

// EnsureIPv6 adds IPv6 to what Ensure made: addresses, and routes to the pods of the clusters that have it.
func (n Network) EnsureIPv6(ctx context.Context, cluster string, index int) error {
	const nodes = 24 // bits of the range of the nodes' IPv4 addresses
	on := func(address netip.Addr, link string) string {
		// Without nodad, an address is not usable for a second.
		return fmt.Sprintf("addr replace %s/%d dev %s nodad", registry.IPv6(address), ipv6Bits+nodes, link)
	}
	route := func(other int) string {
		return fmt.Sprintf("route replace %s via %s",
			registry.IPv6Range(n.plan.Pods(other)), registry.IPv6(n.plan.Node(other)))
	}
	if err := n.ip(ctx, "", on(n.plan.Gateway(), n.plan.Link()), route(index)); err != nil {
		return fmt.Errorf("adding IPv6 (does this kernel have CONFIG_IPV6?): %w", err)
	}
	commands := []string{
		on(n.plan.Node(index), nodeLink),
		"route replace default via " + registry.IPv6(n.plan.Gateway()).String(),
	}
	for other := 1; other <= registry.MaxClusters; other++ {
		if other != index {
			commands = append(commands, route(other))
		}
	}
	if err := n.ip(ctx, cluster, commands...); err != nil {
		return err
	}
	return namespace.InNet(n.plan.Namespace(cluster), func() error { return setUp("ipv6/conf/all/forwarding", "1") })
}

// Remove removes the namespace of a cluster, with its links and routes.
func (n Network) Remove(ctx context.Context, cluster string) error {
	if !namespace.NetPinned(n.plan.Namespace(cluster)) {
		return nil
	}
	if _, err := process.Run(ctx, process.Place{}, "", "ip", "netns", "delete", n.plan.Namespace(cluster)); err != nil {
		return err
	}
	// Links can outlive their namespace for a moment.
	return n.deleteLink(ctx, hub, cluster)
}

// RemoveHub removes the bridge and the machine's link to it.
func (n Network) RemoveHub(ctx context.Context) error {
	if err := n.deleteLink(ctx, "", n.plan.Link()); err != nil {
		return err
	}
	return n.Remove(ctx, hub)
}

// Place returns the pin of the network namespace in which the processes of a cluster run.
func (n Network) Place(cluster string) string {
	return namespace.NetPath(n.plan.Namespace(cluster))
}

func (n Network) ensureNamespace(ctx context.Context, cluster string) error {
	name := n.plan.Namespace(cluster)
	if namespace.NetPinned(name) {
		return nil
	}
	// A command that was killed can leave a pin without a namespace.
	_ = os.Remove(namespace.NetPath(name))
	_, err := process.Run(ctx, process.Place{}, "", "ip", "netns", "add", name)
	return err
}

// ensurePort links the namespace of a cluster to the bridge, or that of the machine if cluster is empty.
func (n Network) ensurePort(ctx context.Context, cluster, link, port string) error {
	if n.hasLink(ctx, cluster, link) && n.hasLink(ctx, hub, port) {
		return nil
	}
	add := fmt.Sprintf("link add %s type veth peer name %s netns %s", link, port, n.plan.Namespace(hub))
	if err := n.ip(ctx, cluster, add); err != nil {
		return fmt.Errorf("making a link (does this kernel have CONFIG_VETH?): %w", err)
	}
	return n.ip(ctx, hub, fmt.Sprintf("link set %s master %s", port, bridge), "link set "+port+" up")
}

// deleteLink deletes a link, which may vanish meanwhile by itself.
func (n Network) deleteLink(ctx context.Context, cluster, link string) error {
	if !n.hasLink(ctx, cluster, link) {
		return nil
	}
	if err := n.ip(ctx, cluster, "link delete "+link); err != nil && n.hasLink(ctx, cluster, link) {
		return err
	}
	return nil
}

func (n Network) hasLink(ctx context.Context, cluster, link string) bool {
	_, err := process.Run(ctx, process.Place{}, "", append(n.ipIn(cluster), "link", "show", link)...)
	return err == nil
}

func (n Network) ip(ctx context.Context, cluster string, commands ...string) error {
	batch := strings.Join(commands, "\n") + "\n"
	_, err := process.Run(ctx, process.Place{}, batch, append(n.ipIn(cluster), "-batch", "-")...)
	return err
}

func (n Network) ipIn(cluster string) []string {
	if cluster == "" {
		return []string{"ip"}
	}
	return []string{"ip", "-netns", n.plan.Namespace(cluster)}
}

// forward lets the network namespace of the calling thread forward packets, as a node does.
func forward() error {
	for file, value := range map[string]string{
		"ipv4/ip_forward": "1", "ipv4/conf/all/rp_filter": "0", "ipv4/conf/default/rp_filter": "0",
	} {
		if err := setUp(file, value); err != nil {
			return err
		}
	}
	return nil
}

// setUp sets a parameter of the network namespace of the calling thread.
func setUp(file, value string) error {
	if err := os.WriteFile("/proc/sys/net/"+file, []byte(value), 0); err != nil {
		return fmt.Errorf("setting up forwarding: %w", err)
	}
	return nil
}
