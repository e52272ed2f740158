package lifecycle

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestAnnotationsThatTheTargetAddsComeBack has a network plugin in the target that annotates pods.
func TestAnnotationsThatTheTargetAddsComeBack(t *testing.T) {
	t.Parallel()
	c2 := engaged(t)
	proxy, delegate := run(t, c2, "web", func(pod *corev1.Pod) { pod.Annotations["cni.io/own"] = "mine" })
	annotate := func(in *env.Cluster, pod *corev1.Pod, key, value string) {
		env.Change(t, in, pod, func(pod *corev1.Pod) {
			if pod.Annotations[key] = value; value == "" {
				delete(pod.Annotations, key)
			}
		})
	}
	expect := func(in *env.Cluster, pod *corev1.Pod, key, value string) {
		t.Helper()
		env.WaitFor(t, in, pod, func(pod *corev1.Pod) error {
			if got := pod.Annotations[key]; got != value {
				return fmt.Errorf("%s is %q, want %q", key, got, value)
			}
			return nil
		})
	}
	annotate(target, delegate, "other", "not wanted")
	for _, network := range []string{"net1", "net2", ""} {
		annotate(target, delegate, "cni.io/network", network)
		expect(source, proxy, "cni.io/network", network)
	}
	annotate(target, delegate, "cni.io/network", "net3")
	expect(source, proxy, "cni.io/network", "net3")

	// A change of the user goes the other way, and what came from the target does not.
	annotate(source, proxy, "cni.io/own", "changed")
	expect(target, delegate, "cni.io/own", "changed")
	annotate(source, proxy, "cni.io/own", "")
	expect(target, delegate, "cni.io/own", "")
	annotate(target, delegate, "cni.io/network", "net4")
	expect(source, proxy, "cni.io/network", "net4")
	expect(source, proxy, "cni.io/own", "")
	expect(source, proxy, "other", "")

	// The user overwrites what the target gave. The target's value stays there until the target gives way.
	annotate(source, proxy, "cni.io/network", "mine")
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		c := translate.PodCondition(pod.Status.Conditions, v1alpha1.ConditionChanges)
		if c == nil || !strings.Contains(c.Message, "annotations/cni.io/network") {
			return fmt.Errorf("condition %v does not say that the delegate lacks the user's annotation", c)
		}
		return nil
	})
	annotate(target, delegate, "cni.io/network", "net5")
	annotate(target, delegate, "cni.io/other", "a")
	expect(source, proxy, "cni.io/other", "a")
	expect(source, proxy, "cni.io/network", "mine")
	annotate(target, delegate, "cni.io/network", "")
	expect(target, delegate, "cni.io/network", "mine")
	expect(source, proxy, "cni.io/network", "mine")
}
