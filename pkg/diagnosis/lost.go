package diagnosis

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// unready returns the condition Ready of the pod's virtual node, or nil if the node is Ready or was not read.
func (s Subject) unready() *corev1.NodeCondition {
	if s.Node == nil {
		return nil
	}
	_, ready := nodeutil.GetNodeCondition(&s.Node.Status, corev1.NodeReady)
	if ready == nil || ready.Status == corev1.ConditionTrue {
		return nil
	}
	return ready
}

// lastSeen says that the pod's status is of the past, if its virtual node is not Ready.
func (s Subject) lastSeen() string {
	ready := s.unready()
	if ready == nil {
		return ""
	}
	state := "Unknown"
	if ready.Status == corev1.ConditionFalse {
		state = "NotReady"
	}
	return fmt.Sprintf("; this is the status last seen: its virtual node is %s (%s)", state, ready.Reason)
}

// fenced says when the target stops the pod's delegate. If the virtual node is not Ready, it also says when the end of
// the pod is confirmed. It is empty for a pod that is not fenced.
func (s Subject) fenced() []string {
	fence, err := translate.Fence(s.Pod.Annotations[v1alpha1.AnnotationFencedAfter])
	if err != nil || fence == 0 {
		return nil
	}
	sentence := fmt.Sprintf("It is fenced: its target, if its manager fences pods, stops it %.0f s after it last "+
		"heard of this cluster.",
		fence.Seconds())
	if s.unready() != nil {
		confirmed := timeouts.FenceHoldsAfterRestart(fence, translate.GracePeriod(&s.Pod.Spec))
		sentence += fmt.Sprintf(" If it is deleted, its end is confirmed at most %.0f s after the last renewal of "+
			"this cluster's Lease there, or after a new leader began, and only while the reason of the target is %s "+
			"and the target's manager was not silent before.",
			confirmed.Seconds(), v1alpha1.ReasonUnreachable)
	}
	return []string{sentence}
}
