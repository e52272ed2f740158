package registry

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestRangesOfAllClustersOfAllCheckoutsAreDistinct(t *testing.T) {
	var seen []netip.Prefix
	for slot := range Slots {
		plan := Plan{Slot: slot}
		ranges := []netip.Prefix{netip.PrefixFrom(plan.Gateway(), 24).Masked()}
		for index := 1; index <= MaxClusters; index++ {
			ranges = append(ranges, plan.Pods(index), plan.Services(index))
		}
		for _, r := range ranges {
			if r != r.Masked() {
				t.Errorf("slot %d: %s has bits beyond its mask", slot, r)
			}
			if !plan.Subnet().Contains(r.Addr()) {
				t.Errorf("slot %d: %s is not in %s", slot, r, plan.Subnet())
			}
			for _, other := range seen {
				if r.Overlaps(other) {
					t.Fatalf("slot %d: %s overlaps %s", slot, r, other)
				}
			}
			seen = append(seen, r)
		}
	}
}

func TestAddressesLieInTheirRanges(t *testing.T) {
	plan := Plan{Slot: 3}
	nodes := netip.PrefixFrom(plan.Gateway(), 24).Masked()
	var fakes []netip.Prefix
	for index := 1; index <= MaxClusters; index++ {
		if !nodes.Contains(plan.Node(index)) || plan.Node(index) == plan.Gateway() {
			t.Errorf("node %d: %s is not one of %s", index, plan.Node(index), nodes)
		}
		for _, service := range []netip.Addr{plan.APIService(index), plan.DNS(index)} {
			if !plan.Services(index).Contains(service) {
				t.Errorf("service address %s is not in %s", service, plan.Services(index))
			}
		}
		for _, other := range fakes {
			if plan.FakePods(index).Overlaps(other) {
				t.Errorf("%s overlaps %s", plan.FakePods(index), other)
			}
		}
		fakes = append(fakes, plan.FakePods(index))
		if !netip.MustParsePrefix("198.18.0.0/15").Contains(plan.FakePods(index).Addr()) {
			t.Errorf("%s is not in the range for benchmarks", plan.FakePods(index))
		}
	}
}

func TestAnIPv6RangeHasAnAddressForEachIPv4Address(t *testing.T) {
	v4 := (Plan{Slot: 3}).Pods(2)
	v6 := IPv6Range(v4)
	if v6 != v6.Masked() || !v6.Addr().Is6() || v6.Addr().BitLen()-v6.Bits() != 32-v4.Bits() {
		t.Errorf("%s stands for %s", v6, v4)
	}
	if last := netip.MustParseAddr("10.203.39.255"); !v4.Contains(last) || !v6.Contains(IPv6(last)) {
		t.Errorf("%s is not in %s", IPv6(last), v6)
	}
	if other := IPv6Range((Plan{Slot: 3}).Services(2)); v6.Overlaps(other) {
		t.Errorf("%s and %s overlap", v6, other)
	}
}

func TestNamesOfLinksFitTheKernel(t *testing.T) {
	const longest = 15
	for slot := range Slots {
		if link := (Plan{Slot: slot}).Link(); len(link) > longest {
			t.Errorf("link %q is longer than %d", link, longest)
		}
	}
	if got, want := (Plan{Slot: 7}).Namespace("c1"), "mcs7-c1"; got != want {
		t.Errorf("namespace %q, want %q", got, want)
	}
	if got, want := (Plan{Slot: 7}).Cgroup(), fmt.Sprintf("multicluster-scheduler-%d", 7); got != want {
		t.Errorf("control group %q, want %q", got, want)
	}
}
