package feedback

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestAnAddressThatComesIntoUseIsHidden(t *testing.T) {
	c2 := engaged(t)
	proxy, c := run(t, c2, "web")
	claim(t, c, "203.0.113.50")
	waitForAddress(t, proxy, "203.0.113.50", "")
	pod := ownPod(t, c2.Key.Namespace, "203.0.113.50")
	waitForAddress(t, proxy, "", v1alpha1.ReasonAddressRefused)
	env.WaitForEvent(t, source, proxy, feedback.ReasonAddressRefused, "203.0.113.50 is in use by a pod of this cluster")
	env.Delete(t, source, pod)
	waitForAddress(t, proxy, "203.0.113.50", "")
}

func TestAnAddressIsHiddenAlsoIfTheTargetIsLostOrLeft(t *testing.T) {
	for name, test := range map[string]struct {
		end     func(*env.Target)
		address string
	}{
		"lost": {func(c *env.Target) { c.Lose() }, "203.0.113.51"},
		"left": {func(c *env.Target) { c.Disengage() }, "203.0.113.52"},
	} {
		t.Run(name, func(t *testing.T) {
			c2 := engaged(t)
			proxy, c := run(t, c2, "web")
			claim(t, c, test.address)
			waitForAddress(t, proxy, test.address, "")
			test.end(c2)
			ownPod(t, c2.Key.Namespace, test.address)
			waitForAddress(t, proxy, "", v1alpha1.ReasonAddressRefused)
		})
	}
}

// claim has the target say that a delegate has an address, and is ready.
func claim(t *testing.T, c *v1alpha1.PodChaperon, address string) {
	t.Helper()
	env.ChangeStatus(t, target, c, func(c *v1alpha1.PodChaperon) {
		c.Status.PodIP, c.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
		c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	})
}

// ownPod creates a pod of the source that runs and has an address. It is deleted when the test ends.
func ownPod(t *testing.T, namespace, address string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "own"), Spec: env.PodSpec()}
	env.CreateForTest(t, source, pod)
	env.ChangeStatus(t, source, pod, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.PodIPs = corev1.PodRunning, []corev1.PodIP{{IP: address}}
		pod.Status.PodIP = address
	})
	return pod
}

// waitForAddress waits until a proxy, which is ready, shows only this address, if any, and has the condition Addresses
// with a reason, if any.
func waitForAddress(t *testing.T, proxy *corev1.Pod, address, reason string) {
	t.Helper()
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		got := ""
		if c := translate.PodCondition(pod.Status.Conditions, v1alpha1.ConditionAddresses); c != nil {
			got = c.Reason
		}
		ready := translate.PodCondition(pod.Status.Conditions, corev1.PodReady)
		if pod.Status.PodIP != address || len(pod.Status.PodIPs) != min(1, len(address)) || got != reason ||
			ready == nil || ready.Status != corev1.ConditionTrue {
			return fmt.Errorf("it shows %q and %v, with the reason %q; ready: %v",
				pod.Status.PodIP, pod.Status.PodIPs, got, ready)
		}
		return nil
	})
}
