package registry

import (
	"fmt"
	"net/netip"
)

const (
	// Slots is the number of checkouts that can have clusters on one machine at the same time.
	Slots = 40
	// MaxClusters is the number of clusters that one checkout can have.
	MaxClusters = 15

	firstSecondOctet = 200
	rangeBits        = 21
)

// Plan derives addresses and names from a slot. The range of a slot is 10.(200+slot).0.0/16. Its first /24 holds the
// addresses of the nodes. Each cluster, 1 to 15, has a /20: the lower half is for pods, the upper half for services.
type Plan struct {
	Slot int
}

// Subnet returns the range that contains all other ranges.
func (p Plan) Subnet() netip.Prefix {
	return netip.PrefixFrom(p.address(0, 0), 16)
}

// Gateway returns the machine's own address in the network of the nodes.
func (p Plan) Gateway() netip.Addr {
	return p.address(0, 1)
}

// Node returns the address of a cluster's node, which is also that of its API server.
func (p Plan) Node(index int) netip.Addr {
	return p.address(0, byte(10+index))
}

// Pods returns the range of a cluster's pods.
func (p Plan) Pods(index int) netip.Prefix {
	return netip.PrefixFrom(p.address(byte(16*index), 0), rangeBits)
}

// Services returns the range of a cluster's services.
func (p Plan) Services(index int) netip.Prefix {
	return netip.PrefixFrom(p.address(byte(16*index+8), 0), rangeBits)
}

// APIService returns the address of a cluster's service kubernetes.default.
func (p Plan) APIService(index int) netip.Addr {
	return p.Services(index).Addr().Next()
}

// DNS returns the address that a cluster's DNS service would have.
func (p Plan) DNS(index int) netip.Addr {
	return p.address(byte(16*index+8), 10)
}

// FakePods returns the range of the addresses of a cluster's simulated pods. Nothing answers at these addresses, which
// are a part of the range that is reserved for benchmarks.
func (p Plan) FakePods(index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + index/8), byte(index % 8 * 32), 0}), 19)
}

// IPv6 returns the address that stands for an IPv4 address where a cluster has both families: its last 32 bits are that
// address.
func IPv6(v4 netip.Addr) netip.Addr {
	// A unique local range (RFC 4193), with a global ID of ours.
	bytes := [16]byte{0xfd, 0x6d, 0x63, 0x73, 0x00, 0x01}
	last := v4.As4()
	copy(bytes[12:], last[:])
	return netip.AddrFrom16(bytes)
}

// IPv6Range returns the range of the addresses that stand for those of an IPv4 range.
func IPv6Range(v4 netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(IPv6(v4.Addr()), 96+v4.Bits())
}

// Namespace returns the name of the network namespace of a cluster, or of the bridge between clusters ("hub").
func (p Plan) Namespace(cluster string) string {
	return fmt.Sprintf("%s-%s", p.Link(), cluster)
}

// Link returns the name of the machine's end of the link to the bridge.
func (p Plan) Link() string {
	return fmt.Sprintf("mcs%d", p.Slot)
}

// Cgroup returns the path of the control group of a checkout, below the root of each controller.
func (p Plan) Cgroup() string {
	return fmt.Sprintf("multicluster-scheduler-%d", p.Slot)
}

func (p Plan) address(third, fourth byte) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(firstSecondOctet + p.Slot), third, fourth})
}
