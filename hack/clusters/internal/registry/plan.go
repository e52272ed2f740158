package registry

import (
	"fmt"
	"net/netip"
)

const (
	// Slots is how many checkouts can have clusters on one machine at the same time.
	Slots = 40
	// MaxClusters is how many clusters one checkout can have.
	MaxClusters = 15

	firstSecondOctet = 200
	rangeBits        = 21
)

// Plan derives addresses and names from a slot: 10.(200+slot).0.0/16 holds the addresses of the nodes in its first /24,
// and for each cluster 1 to 15 a /20, of which the lower half is for pods and the upper half for services.
type Plan struct {
	Slot int
}

// Subnet is the range that holds all other ranges.
func (p Plan) Subnet() netip.Prefix {
	return netip.PrefixFrom(p.address(0, 0), 16)
}

// Gateway is the machine's own address in the network of the nodes.
func (p Plan) Gateway() netip.Addr {
	return p.address(0, 1)
}

// Node is the address of a cluster's node, which is also that of its API server.
func (p Plan) Node(index int) netip.Addr {
	return p.address(0, byte(10+index))
}

// Pods is the range of a cluster's pods.
func (p Plan) Pods(index int) netip.Prefix {
	return netip.PrefixFrom(p.address(byte(16*index), 0), rangeBits)
}

// Services is the range of a cluster's services.
func (p Plan) Services(index int) netip.Prefix {
	return netip.PrefixFrom(p.address(byte(16*index+8), 0), rangeBits)
}

// APIService is the address of a cluster's service kubernetes.default.
func (p Plan) APIService(index int) netip.Addr {
	return p.Services(index).Addr().Next()
}

// DNS is the address that a cluster's service for names would have.
func (p Plan) DNS(index int) netip.Addr {
	return p.address(byte(16*index+8), 10)
}

// FakePods is the range of the addresses that a cluster's simulated pods show. Nothing answers there: it is taken from
// the range reserved for benchmarks.
func (p Plan) FakePods(index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + index/8), byte(index % 8 * 32), 0}), 19)
}

// Namespace is the name of the network namespace of a cluster, or of the bridge between them ("hub").
func (p Plan) Namespace(cluster string) string {
	return fmt.Sprintf("%s-%s", p.Link(), cluster)
}

// Link is the name of the machine's end of the link to the bridge.
func (p Plan) Link() string {
	return fmt.Sprintf("mcs%d", p.Slot)
}

// Cgroup is the path, below each controller's root, of everything that a checkout runs.
func (p Plan) Cgroup() string {
	return fmt.Sprintf("multicluster-scheduler-%d", p.Slot)
}

func (p Plan) address(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(firstSecondOctet + p.Slot), third, fourth})
}
