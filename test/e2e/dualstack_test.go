//go:build e2e && dualstack

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Each cluster has a client and a server of two Services: one of both families, one of IPv6 alone.
func TestDualStackPodsAndServicesHaveTheSameFamiliesInEachCluster(t *testing.T) {
	w := setUp(t)
	both, six := "both", "six"
	selectWeb := func(service *corev1.Service) { service.Spec.Selector = map[string]string{"app": "web"} }
	w.service(t, both, selectWeb, func(service *corev1.Service) {
		service.Spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	})
	w.service(t, six, selectWeb, func(service *corev1.Service) {
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	})
	clients, servers := map[*cluster]string{}, []string{}
	for _, c := range w.all() {
		server, name := "in-"+c.name, "client-in-"+c.name
		servers = append(servers, server)
		create(t, w.c1, w.pod(server, inTarget(c.name, podTemplate("web"))))
		create(t, w.c1, w.pod(name, inTarget(c.name, podTemplate("client", "sleep", "infinity"))))
		w.hasBothFamilies(t, server)
		_, delegate := w.delegateOf(t, w.reaches(t, name, corev1.PodRunning))
		clients[c] = delegate.Name
	}
	for _, c := range w.all() {
		w.hasEndpoints(t, c, both, 2*len(servers))
		w.hasEndpoints(t, c, six, len(servers))
		areOf(t, w.answersOnAll(t, c, clients[c], both, servers), false, true)
		areOf(t, w.answersOnAll(t, c, clients[c], six, servers), true)
	}
}

// hasBothFamilies waits until a pod runs, and compares its addresses with those of its delegate.
func (w *world) hasBothFamilies(t *testing.T, pod string) {
	t.Helper()
	proxy := w.reaches(t, pod, corev1.PodRunning)
	_, delegate := w.delegateOf(t, proxy)
	for _, addresses := range []struct {
		name       string
		proxy, own []string
	}{
		{"podIPs", podIPs(proxy), podIPs(delegate)},
		{"hostIPs", hostIPs(proxy), hostIPs(delegate)},
	} {
		areOf(t, addresses.proxy, false, true)
		if !slices.Equal(addresses.proxy, addresses.own) {
			t.Errorf("%s: %s are %v, those of the delegate %v", pod, addresses.name, addresses.proxy, addresses.own)
		}
	}
}

// answersOnAll waits until all servers answer a client by each address of a Service, and returns the addresses.
func (w *world) answersOnAll(t *testing.T, c *cluster, pod, service string, servers []string) []string {
	t.Helper()
	addresses := w.serviceIn(t, c, service).Spec.ClusterIPs
	for _, address := range addresses {
		url := "http://" + net.JoinHostPort(address, "80") + "/"
		eventually(t, fmt.Sprintf("%v to answer %s in %s", servers, url, c.name), func(ctx context.Context) error {
			heard, err := w.answerers(ctx, c, pod, url, many)
			if err == nil && !slices.Equal(heard, servers) {
				err = fmt.Errorf("it hears %v", heard)
			}
			return err
		})
	}
	return addresses
}

// areOf fails the test unless the addresses are of IPv6 where it says so, and of IPv4 elsewhere.
func areOf(t *testing.T, addresses []string, ipv6 ...bool) {
	t.Helper()
	var got []bool
	for _, text := range addresses {
		address, err := netip.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, address.Is6())
	}
	if !slices.Equal(got, ipv6) {
		t.Errorf("the addresses %v are of IPv6: %v, want %v", addresses, got, ipv6)
	}
}

func podIPs(pod *corev1.Pod) []string {
	var out []string
	for _, ip := range pod.Status.PodIPs {
		out = append(out, ip.IP)
	}
	return out
}

func hostIPs(pod *corev1.Pod) []string {
	var out []string
	for _, ip := range pod.Status.HostIPs {
		out = append(out, ip.IP)
	}
	return out
}
