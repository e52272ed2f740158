package hostile

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestATargetCannotClaimAddressesOfTheSource(t *testing.T) {
	pod := newPod(t)
	service := &corev1.Service{ObjectMeta: env.Meta(pod.proxy.Namespace, "db")}
	service.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  env.Meta(metav1.NamespaceDefault, "another-api-server"),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.5"}}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "kubernetes"}
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine"}}
	machine.Spec.PodCIDR, machine.Spec.PodCIDRs = "203.0.113.64/26", []string{"203.0.113.64/26"}
	own := &corev1.Pod{ObjectMeta: env.Meta(pod.proxy.Namespace, "own"), Spec: env.PodSpec()}
	env.CreateForTest(t, c1, service, slice, machine, own)
	env.ChangeStatus(t, c1, machine, func(n *corev1.Node) {
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "203.0.113.6"}}
	})
	env.ChangeStatus(t, c1, own, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, "203.0.113.7",
			[]corev1.PodIP{{IP: "203.0.113.7"}}
	})
	for _, test := range []struct{ name, address, text string }{
		{"an API server", "203.0.113.5", "in use by an API server"},
		{"an API server, mapped", "::ffff:203.0.113.5", "in use by an API server"},
		{"an API server, by NAT64", "64:ff9b::203.0.113.5", "in use by an API server"},
		{"a Service", service.Spec.ClusterIP, "in use by a Service"},
		{"a node", "203.0.113.6", "in use by a node"},
		{"a bridge on a node", "203.0.113.65", "in use by a node"},
		{"a pod", "203.0.113.7", "in use by a pod"},
		{"loopback", "127.0.0.1", "a loopback address"},
		{"metadata of a cloud", "169.254.169.254", "a link-local address"},
		{"no address at all", "kubernetes.default.svc", "none that a pod can have"},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod.claim(t, "203.0.113.9")
			pod.waitFor(t, "203.0.113.9", "")
			pod.claim(t, test.address)
			pod.waitFor(t, "", test.address)
			env.WaitForEvent(t, c1, pod.proxy, feedback.ReasonAddressRefused, test.text)
		})
	}
}

// claim has the target say that the delegate is ready and has an address, as its host does.
func (p *pod) claim(t *testing.T, address string) {
	t.Helper()
	p.trips++
	env.ChangeStatus(t, c2, p.chaperon, func(c *v1alpha1.PodChaperon) {
		c.Status.Phase, c.Status.Message = corev1.PodRunning, fmt.Sprintf("trip %d", p.trips)
		c.Status.PodIP, c.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		c.Status.HostIP, c.Status.HostIPs = address, []corev1.HostIP{{IP: address}}
		c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

// waitFor waits until the proxy has the last status, shows only this address, if any, and says that another one was
// refused, if any. The proxy is ready.
func (p *pod) waitFor(t *testing.T, address, refused string) {
	t.Helper()
	env.WaitFor(t, c1, p.proxy, func(proxy *corev1.Pod) error {
		is := proxy.Status
		condition := translate.PodCondition(is.Conditions, v1alpha1.ConditionAddresses)
		ready := translate.PodCondition(is.Conditions, corev1.PodReady)
		if is.Message != fmt.Sprintf("trip %d", p.trips) || is.PodIP != address || is.HostIP != address ||
			len(is.PodIPs)+len(is.HostIPs) != 2*min(1, len(address)) || (condition != nil) != (refused != "") ||
			ready == nil || ready.Status != corev1.ConditionTrue {
			return fmt.Errorf("it shows %q, %v, %q, %v; conditions %v", is.PodIP, is.PodIPs, is.HostIP, is.HostIPs,
				is.Conditions)
		}
		return nil
	})
}

func TestPodsHaveAddressesOfAllowedRangesOnly(t *testing.T) {
	pod := newPod(t)
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: honest.Name}}
	pod.claim(t, "203.0.113.9")
	pod.waitFor(t, "203.0.113.9", "")
	limit := func(ranges ...string) {
		env.Change(t, c1, target, func(target *v1alpha1.ClusterTarget) { target.Spec.AllowedPodCIDRs = ranges })
	}
	defer limit()
	limit("198.51.100.0/24")
	pod.waitFor(t, "", "203.0.113.9")
	env.Get(t, c1, pod.proxy)
	got := translate.PodCondition(pod.proxy.Status.Conditions, v1alpha1.ConditionAddresses)
	if got.Reason != v1alpha1.ReasonAddressOutOfRange {
		t.Errorf("got %+v", got)
	}
	limit("203.0.113.0/24")
	pod.waitFor(t, "203.0.113.9", "")
	bad := env.Get(t, c1, target)
	bad.Spec.AllowedPodCIDRs = []string{"203.0.113.0"}
	if err := c1.Client.Update(t.Context(), bad); err == nil {
		t.Error("an address is taken for a range")
	}
}
