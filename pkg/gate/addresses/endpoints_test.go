package addresses

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ofSource returns an EndpointSlice that source c1 wrote in namespace shop.
func ofSource(addresses ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-1", Labels: map[string]string{v1alpha1.LabelParentClusterID: "c1"},
	}}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

// delegateFrom returns a delegate of a source in this cluster, with the address of its host.
func delegateFrom(source, name string, addresses ...string) *corev1.Pod {
	pod := delegateOf(proxyWith(name), "192.0.2.1", addresses...)
	pod.Labels = map[string]string{v1alpha1.LabelParentClusterID: source}
	return pod
}

func TestEndpointsOfSourcesLeadToOtherClusters(t *testing.T) {
	c := newCluster(t)
	elsewhere := delegateFrom("c1", "elsewhere", "10.4.0.4")
	elsewhere.Namespace = "other"
	notDelegate := podWith("labelled", "10.4.0.8")
	notDelegate.Labels = map[string]string{v1alpha1.LabelParentClusterID: "c1"}
	c.see(nodeWith([]string{"10.4.0.0/24"}, "192.0.2.1", "192.0.2.2"), podWith("db", "10.4.0.9"),
		proxyWith("proxy", "10.8.0.1"), delegateFrom("c1", "mine", "10.4.0.2"),
		delegateFrom("c2", "theirs", "10.4.0.3"), elsewhere, notDelegate,
		delegateFrom("c1", "on-the-host", "192.0.2.1"))
	c.set(id{services, types.NamespacedName{Name: "dns"}}, user{kind: ofService, has: read("10.96.0.10")})
	c.set(id{resource: configured}, user{kind: ofAPIServer, has: read("192.0.2.100")})
	limited := Ranges{Limited: true, Allowed: []netip.Prefix{netip.MustParsePrefix("10.8.0.0/16")}, Source: "a value"}
	for name, test := range map[string]struct {
		address string
		ranges  Ranges
		want    string // part of the reason; empty if the source may have it
	}{
		"a pod of the source":                      {address: "10.8.0.7"},
		"a pod for which this cluster has a proxy": {address: "10.8.0.1"},
		"a delegate of the source":                 {address: "10.4.0.2"},
		"a delegate, whatever the ranges":          {"10.4.0.2", limited, ""},
		"a delegate that has its host's address":   {address: "192.0.2.1"},
		"a pod within the ranges":                  {"10.8.0.7", limited, ""},
		"a pod outside of the ranges":              {"10.9.0.7", limited, "outside of the ranges in a value"},
		"a delegate of another source":             {address: "10.4.0.3", want: "in use by a pod"},
		"a delegate in another namespace":          {address: "10.4.0.4", want: "in use by a pod"},
		"a pod with the label of delegates":        {address: "10.4.0.8", want: "in use by a pod"},
		"a pod of this cluster":                    {address: "10.4.0.9", want: "in use by a pod"},
		"the same, mapped":                         {address: "::ffff:10.4.0.9", want: "in use by a pod"},
		"the same, by NAT64":                       {address: "64:ff9b::10.4.0.9", want: "in use by a pod"},
		"a delegate by NAT64":                      {address: "64:ff9b::10.4.0.2", want: "in use by a pod"},
		"another node":                             {address: "192.0.2.2", want: "in use by a node"},
		"a bridge of a node":                       {address: "10.4.0.1", want: "in use by a node"},
		"a Service":                                {address: "10.96.0.10", want: "in use by a Service"},
		"an API server":                            {address: "192.0.2.100", want: "in use by an API server"},
		"loopback":                                 {address: "127.0.0.1", want: "a loopback address"},
		"metadata of a cloud":                      {address: "169.254.169.254", want: "a link-local address"},
		"multicast":                                {address: "239.0.0.1", want: "a multicast address"},
		"a name":                                   {address: "db.example", want: "no address of a pod"},
	} {
		t.Run(name, func(t *testing.T) {
			refused := Endpoints{c.InUse, test.ranges}.Check(ofSource("10.8.0.6", test.address), nil)
			if refused == nil && test.want != "" || refused != nil &&
				(test.want == "" || !strings.Contains(refused.Error(), test.want)) {
				t.Errorf("got %v, want %q", refused, test.want)
			}
		})
	}
}

func TestAnAddressThatEndpointsHadMayStay(t *testing.T) {
	c := newCluster(t)
	c.see(podWith("db", "10.4.0.9"), podWith("api", "10.4.0.8"))
	check := Endpoints{InUse: c.InUse}
	if refused := check.Check(ofSource("10.4.0.9"), ofSource("10.4.0.9", "10.4.0.7")); refused != nil {
		t.Errorf("an endpoint cannot be removed: %v", refused)
	}
	if refused := check.Check(ofSource("10.4.0.9", "10.4.0.8"), ofSource("10.4.0.9")); refused == nil {
		t.Error("an endpoint is added that leads to a pod of this cluster")
	}
}

func TestEndpointsAreDecidedAnewWhenSomebodyUsesTheirAddress(t *testing.T) {
	c := newCluster(t)
	var changed []string
	c.OnEndpointsChange(func(slice types.NamespacedName) { changed = append(changed, slice.Name) })
	expect := func(names ...string) {
		t.Helper()
		if diff := cmp.Diff(names, changed); diff != "" && len(names)+len(changed) > 0 {
			t.Errorf("endpoints to be decided anew (-want +got):\n%s", diff)
		}
		changed = nil
	}
	slice, proxy := ofSource("10.4.0.9", "10.4.0.9", "10.8.0.1"), proxyWith("web", "10.4.0.9")
	c.Show(client.ObjectKeyFromObject(slice), slice)
	c.see(proxy)
	expect() // Neither uses the address.
	c.see(podWith("db", "10.4.0.9"))
	expect("web-1")
	c.expectChanged("web")
	c.lose(podWith("db"))
	expect("web-1")
	c.expectChanged("web")
	c.Show(client.ObjectKeyFromObject(slice), nil)
	c.see(podWith("db", "10.4.0.9"))
	expect()
	c.lose(podWith("db"))
	c.lose(proxy)
	if len(c.holders) != 0 || len(c.byAddress) != 0 {
		t.Errorf("left are %v, %v", c.holders, c.byAddress)
	}
}

// TestManyAddressesTakeNoLongTime has as many addresses as an API server stores of one EndpointSlice.
func TestManyAddressesTakeNoLongTime(t *testing.T) {
	c := newCluster(t)
	slice := ofSource()
	address := netip.MustParseAddr("10.0.0.1")
	for range 1000 {
		endpoint := discoveryv1.Endpoint{}
		for range 100 {
			endpoint.Addresses = append(endpoint.Addresses, address.String())
			address = address.Next()
		}
		slice.Endpoints = append(slice.Endpoints, endpoint)
	}
	c.Show(client.ObjectKeyFromObject(slice), slice)
	if refused := (Endpoints{InUse: c.InUse}).Check(slice, nil); refused != nil {
		t.Error(refused)
	}
	if got := len(c.byAddress); got != 100_000 || !slices.ContainsFunc(
		c.byAddress[netip.MustParseAddr("10.0.0.1")], func(h *holder) bool { return h.kind == ofEndpoints }) {
		t.Errorf("%d addresses are known", got)
	}
	c.Show(client.ObjectKeyFromObject(slice), nil)
}
