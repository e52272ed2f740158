package idle

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/idle"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func waitForStatus(t *testing.T, pod *corev1.Pod, phase corev1.PodPhase, ready corev1.ConditionStatus, reason string) {
	t.Helper()
	env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
		c := translate.PodCondition(pod.Status.Conditions, corev1.PodReady)
		if pod.Status.Phase != phase || pod.Status.Reason != reason || c == nil || c.Status != ready {
			return fmt.Errorf("the status is %v", pod.Status)
		}
		return nil
	})
}

func TestThePodOfADaemonSetIsAcknowledgedOnAVirtualNode(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	pod := createOn(t, createNode(t, namespace, true), namespace, "agent", "DaemonSet")
	waitForStatus(t, pod, corev1.PodRunning, corev1.ConditionTrue, idle.ReasonNothingRuns)
	if len(pod.Status.PodIPs) > 0 {
		t.Errorf("the pod has the addresses %v", pod.Status.PodIPs)
	}
	t.Run("again, after the node controller found the node not ready", func(t *testing.T) {
		env.ChangeStatus(t, source, pod, func(pod *corev1.Pod) {
			translate.PodCondition(pod.Status.Conditions, corev1.PodReady).Status = corev1.ConditionFalse
		})
		waitForStatus(t, pod, corev1.PodRunning, corev1.ConditionTrue, idle.ReasonNothingRuns)
	})
	if events := env.Events(t, source, pod); len(events) > 0 {
		t.Errorf("unexpected events %v", events)
	}
}

func TestThePodMayBeThereBeforeItsNode(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	pod := createOn(t, "admiralty-"+namespace+"-late", namespace, "agent", "DaemonSet")
	env.Create(t, source, env.VirtualNode(pod.Spec.NodeName))
	waitForStatus(t, pod, corev1.PodRunning, corev1.ConditionTrue, idle.ReasonNothingRuns)
}

func TestAPodThatWasBoundByHandSaysWhyNothingRuns(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	pod := createOn(t, createNode(t, namespace, true), namespace, "web", "")
	waitForStatus(t, pod, corev1.PodPending, corev1.ConditionFalse, idle.ReasonNotElected)
	env.WaitForEvent(t, source, pod, idle.ReasonNotElected, "Delete this pod")
	if pod.DeletionTimestamp != nil {
		t.Error("the pod is being deleted")
	}
}

func TestOtherPodsCostNothing(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	node := createNode(t, namespace, false) // An ordinary node, whose name looks like a virtual node's.
	other := createOn(t, node, namespace, "other", "DaemonSet")
	proxy := env.Proxy(namespace, "proxy")
	env.Create(t, source, proxy)
	virtual := "admiralty-" + namespace + "-virtual"
	env.Create(t, source, env.VirtualNode(virtual))
	env.Bind(t, source, proxy, virtual)
	marker := createOn(t, virtual, namespace, "marker", "DaemonSet")
	waitForStatus(t, marker, corev1.PodRunning, corev1.ConditionTrue, idle.ReasonNothingRuns)
	for _, pod := range []*corev1.Pod{other, proxy} {
		env.Get(t, source, pod)
		if n := requestsFor(pod); n > 0 || pod.Status.Reason != "" {
			t.Errorf("pod %q has the status %v, after %d requests", pod.Name, pod.Status, n)
		}
	}
}
