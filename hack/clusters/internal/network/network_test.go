package network

import (
	"net/netip"
	"strings"
	"testing"
)

// The first route is the default, the second to 10.200.0.0/24, the third to 172.17.0.0/16.
const routes = "" +
	`Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT
eth0	00000000	010011AC	0003	0	0	0	00000000	0	0	0
mcs0	0000C80A	00000000	0001	0	0	0	00FFFFFF	0	0	0
eth0	000011AC	00000000	0001	0	0	0	0000FFFF	0	0	0
`

func TestRouted(t *testing.T) {
	for name, c := range map[string]struct {
		subnet string
		want   bool
	}{
		"a route leads to a part of the range":                {subnet: "10.200.0.0/16", want: true},
		"a route leads to more than the range":                {subnet: "172.17.3.0/24", want: true},
		"only the default route leads to the range":           {subnet: "10.201.0.0/16"},
		"only the default route leads to the preceding range": {subnet: "10.199.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := routed(routes, netip.MustParsePrefix(c.subnet)); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestLoopbackIsInUse(t *testing.T) {
	if !InUse(netip.MustParsePrefix("127.0.0.0/16")) {
		t.Error("the machine's own address does not count")
	}
}

func TestPartitionRules(t *testing.T) {
	some := partitionRules("c-2", Cut{})
	for _, want := range []string{
		"table bridge partition_c_2 {",
		`iifname "c-2" oifname != "machine" drop`,
		`oifname "c-2" iifname != "machine" drop`,
	} {
		if !strings.Contains(some, want) {
			t.Errorf("no %q in:\n%s", want, some)
		}
	}
	all := partitionRules("c2", Cut{FromMachine: true})
	for _, want := range []string{`iifname "c2" drop`, `oifname "c2" drop`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in:\n%s", want, all)
		}
	}
}

func TestIsolationRules(t *testing.T) {
	rules := isolationRules(6443, []netip.Addr{netip.MustParseAddr("10.200.128.5"), netip.MustParseAddr("fd00::5")})
	for _, want := range []string{
		"ip saddr 10.200.128.5 tcp dport 6443 drop", "ip6 saddr fd00::5 tcp dport 6443 drop",
	} {
		if !strings.Contains(rules, want) {
			t.Errorf("no %q in:\n%s", want, rules)
		}
	}
}

func TestALimitLetsWholePacketsPass(t *testing.T) {
	for mbit, want := range map[int]string{
		10:     "qdisc replace dev c2 root tbf rate 10mbit burst 262144 latency 20ms",
		10_000: "qdisc replace dev c2 root tbf rate 10000mbit burst 2500000 latency 20ms",
	} {
		if got := limitRule(mbit, ends("c2")[1]); got != want {
			t.Errorf("%d Mbit/s: %s", mbit, got)
		}
	}
}

func TestACutInOneDirectionOrOfSomePackets(t *testing.T) {
	for name, test := range map[string]struct {
		cut        Cut
		has, lacks string
	}{
		"only packets to the cluster": {
			cut: Cut{OnlyIn: true}, has: `oifname "c2" iifname != "machine" drop`, lacks: `iifname "c2"`,
		},
		"only packets from the cluster": {
			cut: Cut{OnlyOut: true}, has: `iifname "c2" oifname != "machine" drop`, lacks: `oifname "c2"`,
		},
		"a third of the packets": {
			cut: Cut{Percent: 33}, has: `"machine" numgen random mod 100 < 33 drop`, lacks: `"machine" drop`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := partitionRules("c2", test.cut)
			if !strings.Contains(rules, test.has) || strings.Contains(rules, test.lacks) {
				t.Errorf("want %q and no %q in:\n%s", test.has, test.lacks, rules)
			}
		})
	}
}
