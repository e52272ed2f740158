package scheduling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestConstraintsThatAreAddedToAGatedPod has a queueing system that adds constraints to a pod and lifts its gate, as
// Kueue does. They choose the target, and the delegate has them. Admission has seen none of them.
func TestConstraintsThatAreAddedToAGatedPod(t *testing.T) {
	requirement := corev1.NodeSelectorRequirement{Key: "zone", Operator: corev1.NodeSelectorOpExists}
	affinity := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{requirement}}},
	}}
	spot := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists}
	for name, add := range map[string]func(*corev1.PodSpec){
		"selector": func(spec *corev1.PodSpec) { spec.NodeSelector["pool"] = "spot" },
		"affinity": func(spec *corev1.PodSpec) { spec.Affinity = &corev1.Affinity{NodeAffinity: affinity} },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, time.Minute, map[string]string{"c1": "8", "c2": "4"})
			s.summarizeAs(t, "c2", v1alpha1.NodeClass{
				Nodes: 1, Allocatable: room("100"), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room("4")}},
				Labels: map[string]string{"pool": "spot", "zone": "a"},
				Taints: []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}},
			})
			pod := s.pod(t, "gated-"+name, "1", func(pod *corev1.Pod) {
				pod.Spec.NodeSelector = map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
				pod.Spec.Tolerations = []corev1.Toleration{
					{Key: v1alpha1.LabelNodeProvider, Operator: corev1.TolerationOpExists},
					{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}, // nobody removes it here
				}
				pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/queue"}}
			})
			env.Change(t, source, pod, func(pod *corev1.Pod) {
				add(&pod.Spec)
				pod.Spec.Tolerations = append(pod.Spec.Tolerations, spot)
				pod.Spec.SchedulingGates = nil
			})
			expectBound(t, pod, "c2")
			delegate := s.placed(t, "c2", 1).Spec
			if len(delegate.SchedulingGates) > 0 || delegate.NodeSelector[v1alpha1.LabelNodeProvider] != "" {
				t.Errorf("the delegate has gates %v, selector %v", delegate.SchedulingGates, delegate.NodeSelector)
			}
			if delegate.NodeSelector["pool"] != "spot" && delegate.Affinity == nil {
				t.Errorf("the delegate has selector %v, affinity %v", delegate.NodeSelector, delegate.Affinity)
			}
			if !tolerates(delegate.Tolerations, spot) {
				t.Errorf("the delegate has tolerations %v", delegate.Tolerations)
			}
		})
	}
}

func tolerates(tolerations []corev1.Toleration, want corev1.Toleration) bool {
	for _, t := range tolerations {
		if t.Key == want.Key {
			return true
		}
	}
	return false
}
