package addresses

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// vetting refuses what a cluster that uses 10.4.0.9 and 192.0.2.1 refuses.
func vetting(t *testing.T, ranges Ranges) Vet {
	t.Helper()
	c := newCluster(t)
	proxy := proxyWith("web")
	c.see(proxy, podWith("db", "10.4.0.9"), nodeWith(nil, "192.0.2.1"))
	return func(address netip.Addr) *RefusedError { return c.Vet(proxy, ranges, false, address) }
}

func statusOf(pods, hosts string) corev1.PodStatus {
	var status corev1.PodStatus
	for text := range strings.FieldsSeq(pods) {
		status.PodIPs = append(status.PodIPs, corev1.PodIP{IP: text})
	}
	for text := range strings.FieldsSeq(hosts) {
		status.HostIPs = append(status.HostIPs, corev1.HostIP{IP: text})
	}
	if len(status.PodIPs) > 0 {
		status.PodIP = status.PodIPs[0].IP
	}
	if len(status.HostIPs) > 0 {
		status.HostIP = status.HostIPs[0].IP
	}
	return status
}

func TestShow(t *testing.T) {
	limited := RangesOf([]string{"10.8.0.0/16", "fd00::/8"}, "the field")
	for name, test := range map[string]struct {
		pods, hosts         string
		ranges              Ranges
		wantPods, wantHosts string
		reason              string
		texts               []string
	}{
		"good addresses": {
			pods: "10.8.0.1 fd00::1", hosts: "192.0.2.9", wantPods: "10.8.0.1 fd00::1", wantHosts: "192.0.2.9",
		},
		"no addresses": {},
		"forms of one address are one": {
			pods: "::ffff:10.8.0.1 10.8.0.1 FD00:0::1 fd00::1", wantPods: "10.8.0.1 fd00::1",
		},
		"one of each family": {pods: "10.8.0.1 10.8.0.2 fd00::1 fd00::2", wantPods: "10.8.0.1 fd00::1"},
		"the second one moves up": {
			pods: "10.4.0.9 fd00::1", wantPods: "fd00::1", reason: v1alpha1.ReasonAddressRefused,
			texts: []string{"10.4.0.9 is in use by a pod of this cluster"},
		},
		"a node's": {
			pods: "192.0.2.1", hosts: "192.0.2.1", reason: v1alpha1.ReasonAddressRefused,
			texts: []string{"192.0.2.1 is in use by a node of this cluster"},
		},
		"loopback, hidden": {
			pods: "::ffff:127.0.0.1", reason: v1alpha1.ReasonAddressRefused,
			texts: []string{"127.0.0.1 is a loopback address"},
		},
		"with a zone": {
			pods: "fe80::1%eth0", reason: v1alpha1.ReasonAddressRefused, texts: []string{"fe80::1%eth0 is none"},
		},
		"with leading zeros": {
			pods: "127.000.000.001", reason: v1alpha1.ReasonAddressRefused, texts: []string{"is none"},
		},
		"a name": {pods: "kubernetes.default.svc", reason: v1alpha1.ReasonAddressRefused},
		"in range": {
			pods: "10.8.0.1", hosts: "192.0.2.9", ranges: limited, wantPods: "10.8.0.1",
		},
		"out of range": {
			pods: "10.9.0.1 fd00::1", ranges: limited, wantPods: "fd00::1", reason: v1alpha1.ReasonAddressOutOfRange,
			texts: []string{"10.9.0.1 is outside of the ranges in the field"},
		},
		"out of range and in use": {
			pods: "10.9.0.1", hosts: "192.0.2.1", ranges: limited, reason: v1alpha1.ReasonAddressRefused,
			texts: []string{"10.9.0.1 is outside", "192.0.2.1 is in use"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, want := statusOf(test.pods, test.hosts), statusOf(test.wantPods, test.wantHosts)
			status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodReady, Status: corev1.ConditionTrue},
				{Type: v1alpha1.ConditionAddresses, Message: "forged"},
			}
			was := corev1.PodStatus{}
			Show(&status, was, vetting(t, test.ranges), metav1.Now())
			condition := translate.PodCondition(status.Conditions, v1alpha1.ConditionAddresses)
			if got := reasonOf(condition); got != test.reason {
				t.Errorf("the reason is %q, want %q", got, test.reason)
			}
			for _, text := range test.texts {
				if !strings.Contains(condition.Message, text) {
					t.Errorf("%q says nothing about %q", condition.Message, text)
				}
			}
			ready := translate.PodCondition(status.Conditions, corev1.PodReady)
			if ready == nil || ready.Status != corev1.ConditionTrue {
				t.Errorf("the pod is not ready: %v", ready)
			}
			status.Conditions = nil
			if diff := cmp.Diff(want, status); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func reasonOf(condition *corev1.PodCondition) string {
	if condition == nil {
		return ""
	}
	return condition.Reason
}

func TestTheConditionKeepsItsTime(t *testing.T) {
	vet := vetting(t, Ranges{})
	first, second := statusOf("10.4.0.9", ""), statusOf("10.4.0.9", "192.0.2.1")
	since := metav1.NewTime(time.Unix(1000, 0))
	Show(&first, corev1.PodStatus{}, vet, since)
	Show(&second, first, vet, metav1.NewTime(time.Unix(2000, 0)))
	condition := translate.PodCondition(second.Conditions, v1alpha1.ConditionAddresses)
	if !condition.LastTransitionTime.Equal(&since) || !strings.Contains(condition.Message, "192.0.2.1") {
		t.Errorf("got %+v", condition)
	}
}

func TestMustHide(t *testing.T) {
	vet := vetting(t, Ranges{})
	for _, test := range []struct {
		pods, hosts string
		want        bool
	}{{"", "", false}, {"10.8.0.1", "192.0.2.9", false}, {"10.4.0.9", "", true}, {"10.8.0.1", "192.0.2.1", true}} {
		status := statusOf(test.pods, test.hosts)
		if got := MustHide(&status, vet); got != test.want {
			t.Errorf("%q, %q: %v", test.pods, test.hosts, got)
		}
	}
}

func TestRanges(t *testing.T) {
	for name, test := range map[string]struct {
		ranges  []string
		address string
		want    bool
	}{
		"no ranges":                              {nil, "10.0.0.1", true},
		"a mapped range":                         {[]string{"::ffff:10.0.0.0/104"}, "10.1.2.3", true},
		"a mapped range of all IPv4":             {[]string{"::ffff:0.0.0.0/96"}, "10.1.2.3", true},
		"a range with more than IPv4":            {[]string{"::ffff:0.0.0.0/64"}, "10.1.2.3", false},
		"a small range of IPv6":                  {[]string{"fd00::/104"}, "fd00:1::1", false},
		"a range with a host":                    {[]string{"10.0.0.9/8"}, "10.1.2.3", true},
		"IPv4 is not IPv6":                       {[]string{"::/0"}, "10.0.0.1", false},
		"a text that is no range allows nothing": {[]string{"10.0.0.0"}, "10.0.0.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := RangesOf(test.ranges, "x").check(netip.MustParseAddr(test.address)); (err == nil) != test.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

// FuzzShow checks that no text of a target shows an address that leads to this machine or is in use.
func FuzzShow(f *testing.F) {
	for _, text := range []string{
		"10.4.0.9", "::ffff:10.4.0.9", "fe80::1%x", "127.1", "0x7f.1", "10.4.0.09", "::ffff:0:127.0.0.1", "1.2.3.4,",
	} {
		f.Add(text, "10.8.0.1")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		status := statusOf("", "")
		status.PodIP, status.PodIPs = first, []corev1.PodIP{{IP: second}, {IP: first}}
		status.HostIP = second
		Show(&status, corev1.PodStatus{}, vetting(t, Ranges{}), metav1.Now())
		if len(status.PodIPs) > 2 || (len(status.PodIPs) > 0) != (status.PodIP != "") {
			t.Fatalf("shown: %v, %v", status.PodIP, status.PodIPs)
		}
		for _, text := range append(podIPs(status.PodIPs), hostIPs(status.HostIPs)...) {
			address, err := netip.ParseAddr(text)
			switch {
			case err != nil, address.String() != text, address.Is4In6(), address.Zone() != "":
				t.Errorf("%q is shown", text)
			case checkForm(address) != nil, text == "10.4.0.9", text == "192.0.2.1":
				t.Errorf("%q is shown", text)
			}
		}
	})
}
