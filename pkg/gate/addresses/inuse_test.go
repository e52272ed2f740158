package addresses

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// cluster plays the watches of an InUse, and notes which proxies it wants decided anew.
type cluster struct {
	*InUse
	t       *testing.T
	changed []string
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{InUse: New(nil, nil, "https://192.0.2.100:6443"), t: t}
	c.OnChange(func(proxy types.NamespacedName) { c.changed = append(c.changed, proxy.Name) })
	return c
}

func (c *cluster) handler(object any) toolscache.ResourceEventHandler {
	switch object.(type) {
	case *corev1.Node:
		return handler(c.InUse, nodes, userNode)
	case *corev1.Service:
		return handler(c.InUse, services, userService)
	case *discoveryv1.EndpointSlice:
		return handler(c.InUse, endpointSlices, userAPIServer)
	default:
		return handler(c.InUse, pods, userPod)
	}
}

func (c *cluster) see(objects ...any) {
	for _, object := range objects {
		c.handler(object).OnAdd(object, false)
	}
}

func (c *cluster) lose(object any) { c.handler(object).OnDelete(object) }

func (c *cluster) expectChanged(names ...string) {
	c.t.Helper()
	slices.Sort(c.changed)
	if diff := cmp.Diff(names, c.changed); diff != "" && len(names)+len(c.changed) > 0 {
		c.t.Errorf("proxies to be decided anew (-want +got):\n%s", diff)
	}
	c.changed = nil
}

// expect checks whether a proxy may show an address.
func (c *cluster) expect(proxy *corev1.Pod, address string, shown bool) {
	c.t.Helper()
	if err := c.Vet(proxy, Ranges{}, false, netip.MustParseAddr(address)); (err == nil) != shown {
		c.t.Errorf("%s: %v, want it shown: %v", address, err, shown)
	}
}

func podWith(name string, addresses ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}}
	pod.Spec.NodeName, pod.Status.Phase = "node-1", corev1.PodRunning
	for _, address := range addresses {
		pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: address})
	}
	return pod
}

func proxyWith(name string, addresses ...string) *corev1.Pod {
	pod := podWith(name, addresses...)
	pod.Spec.SchedulerName, pod.Spec.NodeName = v1alpha1.SchedulerName, "admiralty-c2"
	return pod
}

// delegateOf returns the delegate of a proxy, in the same cluster.
func delegateOf(proxy *corev1.Pod, host string, addresses ...string) *corev1.Pod {
	pod := podWith(translate.DelegateName(proxy), addresses...)
	pod.Status.HostIPs = []corev1.HostIP{{IP: host}}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "PodChaperon", Controller: new(true)}}
	return pod
}

func nodeWith(ranges []string, addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Spec: corev1.NodeSpec{PodCIDRs: ranges}}
	for _, address := range addresses {
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Address: address})
	}
	return node
}

func TestAddressesInUseAreNotShown(t *testing.T) {
	c := newCluster(t)
	proxy, virtual := proxyWith("web", "10.9.0.1"), nodeWith(nil, "10.9.0.2")
	virtual.Name, virtual.Labels = "admiralty-c2", map[string]string{
		v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue,
	}
	finished := podWith("job", "10.9.0.3")
	finished.Status.Phase = corev1.PodSucceeded
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "kubernetes",
			Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"},
		},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.101"}}},
	}
	tenants := slice.DeepCopy()
	tenants.Namespace, tenants.Endpoints[0].Addresses = "shop", []string{"10.9.0.4"}
	service, err := transformService(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.96.0.7", "None"}, ExternalIPs: []string{"198.51.100.1"},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: "198.51.100.2"}, {Hostname: "lb.example"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.see(proxy, virtual, finished, slice, tenants, service, podWith("db", "10.4.0.9", "fd00::9"),
		nodeWith([]string{"10.4.0.0/24", "fd00::/64"}, "192.0.2.1", "node-1.example", "2001:db8::1"))
	c.set(id{resource: configured}, user{kind: ofAPIServer, has: read(hostOf(c.apiServer))})
	for address, shown := range map[string]bool{
		"10.4.0.9": false, "fd00::9": false, "::ffff:10.4.0.9": false, "64:ff9b::10.4.0.9": false,
		"192.0.2.1": false, "2001:db8::1": false, "10.4.0.0": false, "10.4.0.1": false, "fd00::1": false,
		"10.96.0.7": false, "198.51.100.1": false, "198.51.100.2": false,
		"192.0.2.100": false, "192.0.2.101": false,
		"127.0.0.1": false, "169.254.169.254": false, "224.0.0.1": false, "::": false,
		"10.4.0.8": true, "10.9.0.1": true, "10.9.0.2": true, "10.9.0.3": true, "10.9.0.4": true, "10.96.0.1": true,
	} {
		c.expect(proxy, address, shown)
		if err := c.Check(netip.MustParseAddr(address)); shown && err != nil {
			t.Errorf("%s is dialled: %v", address, err)
		}
	}
	if c.Check(netip.MustParseAddr("10.96.0.7")) == nil {
		t.Error("an own Service may be dialled")
	}
}

func TestAnAddressThatComesIntoUseIsDecidedAnew(t *testing.T) {
	c := newCluster(t)
	proxy, other, pod := proxyWith("web", "10.4.0.9"), proxyWith("api", "10.4.0.8"), podWith("db", "10.4.0.9")
	c.see(proxy, other)
	c.expectChanged()
	c.expect(proxy, "10.4.0.9", true)
	c.see(pod)
	c.expectChanged("web")
	c.expect(proxy, "10.4.0.9", false)
	c.see(pod)
	c.expectChanged()
	c.see(proxyWith("web")) // It hides the address, and waits.
	c.expectChanged()
	c.lose(pod)
	c.expectChanged("web")
	c.expect(proxy, "10.4.0.9", true)
}

func TestAProxyThatShowsAnAddressInUseIsDecidedAnew(t *testing.T) {
	c := newCluster(t)
	c.see(podWith("db", "10.4.0.9"), proxyWith("web"))
	c.expectChanged()
	c.see(proxyWith("web", "10.4.0.9"), proxyWith("api", "10.4.0.8"))
	c.expectChanged("web")
}

func TestAPodThatFinishesFreesItsAddress(t *testing.T) {
	c := newCluster(t)
	proxy, pod := proxyWith("web"), podWith("job", "10.4.0.9")
	c.see(proxy, pod)
	c.expect(proxy, "10.4.0.9", false)
	pod = pod.DeepCopy()
	pod.Status.Phase = corev1.PodFailed
	c.see(pod)
	c.expectChanged("web")
	c.expect(proxy, "10.4.0.9", true)
}

func TestADelegateInTheSourceHasItsOwnAddresses(t *testing.T) {
	c := newCluster(t)
	proxy, other := proxyWith("web"), proxyWith("api")
	impostor := podWith(translate.DelegateName(other), "10.4.0.8")
	c.see(proxy, other, nodeWith(nil, "192.0.2.1"), impostor)
	c.expect(proxy, "192.0.2.1", false)
	c.see(delegateOf(proxy, "192.0.2.1", "10.4.0.9"))
	c.expectChanged("web") // It waits for the address of its host.
	for _, address := range []string{"10.4.0.9", "192.0.2.1"} {
		c.expect(proxy, address, true)
		c.expect(other, address, false)
		if err := c.Vet(proxy, Ranges{Limited: true}, false, netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s is limited by ranges: %v", address, err)
		}
	}
	c.expect(other, "10.4.0.8", false)
}

func TestADelegateInTheSourceKeepsTheAddressOfItsHost(t *testing.T) {
	c := newCluster(t)
	proxy, other := proxyWith("web", "10.4.0.9", "192.0.2.1"), proxyWith("api", "192.0.2.1")
	node := nodeWith(nil, "192.0.2.1")
	delegate := delegateOf(proxy, "192.0.2.1", "10.4.0.9")
	c.see(node, delegate, proxy, other)
	c.changed = nil
	c.see(delegateOf(other, "192.0.2.1", "10.4.0.7"))
	c.expectChanged() // A host has many delegates.
	finished := delegate.DeepCopy()
	finished.Status.Phase = corev1.PodSucceeded
	c.see(finished)
	c.expectChanged("web") // Others may use the pod's address now.
	c.expect(proxy, "192.0.2.1", true)
	c.lose(finished)
	c.expect(proxy, "192.0.2.1", false)
	if err := c.Vet(proxy, Ranges{}, true, netip.MustParseAddr("192.0.2.1")); err != nil {
		t.Errorf("in the target that is the source itself: %v", err)
	}
	if err := c.Vet(proxy, Ranges{}, true, netip.MustParseAddr("10.4.0.7")); err == nil {
		t.Error("it may show another pod's address")
	}
}

func TestNothingIsLeftOfWhatIsGone(t *testing.T) {
	c := newCluster(t)
	proxy, pod, node := proxyWith("web", "10.4.0.7"), podWith("db", "10.4.0.9", "fd00::9"), nodeWith(nil, "192.0.2.1")
	c.see(proxy, pod, node)
	for _, address := range []string{"10.4.0.9", "fd00::9", "192.0.2.1", "10.4.0.9"} {
		c.expect(proxy, address, false)
	}
	c.see(podWith("more", "10.4.1.1", "10.4.1.2", "10.4.1.3", "10.4.1.4", "10.4.1.5"))
	for _, address := range []string{"10.4.1.1", "10.4.1.2", "10.4.1.3", "10.4.1.4", "10.4.1.5"} {
		c.expect(proxy, address, false)
	}
	if got := len(c.holders[id{pods, types.NamespacedName{Namespace: "shop", Name: "web"}}].waits); got != maxWaits {
		t.Errorf("the proxy waits for %d addresses", got)
	}
	c.lose(proxy)
	c.lose(pod)
	c.lose(node)
	c.lose(podWith("more"))
	if len(c.holders) != 0 || len(c.byAddress) != 0 {
		t.Errorf("left are %v, %v", c.holders, c.byAddress)
	}
}

// started is a watch that has begun, or not.
type started chan struct{}

func (started) Name() string { return "" }

func (s started) Done() <-chan struct{} { return s }

func TestWhatCannotBeListedIsNamed(t *testing.T) {
	c := newCluster(t)
	done := make(started)
	close(done)
	c.listed[nodes], c.listed[services], c.listed[pods] = done, done, make(started)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); err == nil || !strings.Contains(err.Error(), "listing endpointslices, pods:") {
		t.Errorf("got %v", err)
	}
}

func TestAddressesAndHostsAreRead(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1")}
	if got := read("10.0.0.1", "db.example", "fd00::1", "10.0.0.1"); !slices.Equal(got, want) {
		t.Errorf("addresses %v, want %v", got, want)
	}
	for server, want := range map[string]string{
		"https://10.0.0.1:6443": "10.0.0.1", "https://[fd00::1]:6443/k8s": "fd00::1", "10.0.0.1": "10.0.0.1",
		"https://%zz": "https://%zz",
	} {
		if got := hostOf(server); got != want {
			t.Errorf("the host of %q is %q, want %q", server, got, want)
		}
	}
}
