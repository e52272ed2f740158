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
