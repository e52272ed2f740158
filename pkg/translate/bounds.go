package translate

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// The bounds of a delegate's status, in bytes, as far as a source believes it. No kubelet reports more.
const (
	// maxMessage is the longest message of a container that has ended. Kubelets cut it there.
	maxMessage = 4 << 10
	maxReason  = 1 << 10
	// maxConditions is the number of conditions. Kubelets report eight, and others one for each readiness gate.
	maxConditions = 100
	// maxConditionType is the length of the longest type that API servers accept: a domain, a slash and a name.
	maxConditionType = 253 + 1 + 63
	// MaxStatus bounds the whole status. A pod with 100 containers, which mount ten volumes each, has 182 KiB.
	MaxStatus = 256 << 10
)

const (
	reasonTooLarge  = "StatusTooLarge"
	messageTooLarge = "the target reports a status of more than 256 KiB: only phase and conditions are shown"
)

// BoundStatus makes the status that a target reports small: its texts, its conditions, and the whole. If the whole is
// too large, it keeps the phase and the conditions that decide about the pod. It does not bound warnings and
// annotations: see Warnings and BoundAnnotations.
func BoundStatus(status *corev1.PodStatus) {
	boundText(&status.Reason, &status.Message)
	status.NominatedNodeName = Shorten(status.NominatedNodeName, maxReason)
	status.Conditions = boundConditions(status.Conditions)
	for _, containers := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range containers {
			boundState(&containers[i].State)
			boundState(&containers[i].LastTerminationState)
		}
	}
	if status.Size() > MaxStatus {
		*status = essential(status)
	}
}

func boundText(reason, message *string) {
	*reason, *message = Shorten(*reason, maxReason), Shorten(*message, maxMessage)
}

func boundState(state *corev1.ContainerState) {
	if state.Waiting != nil {
		boundText(&state.Waiting.Reason, &state.Waiting.Message)
	}
	if state.Terminated != nil {
		boundText(&state.Terminated.Reason, &state.Terminated.Message)
	}
}

// boundConditions returns the first conditions, with short texts.
func boundConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	conditions = slices.DeleteFunc(conditions, func(c corev1.PodCondition) bool {
		return len(c.Type) > maxConditionType || len(c.Status) > maxReason
	})
	conditions = conditions[:min(len(conditions), maxConditions)]
	for i := range conditions {
		if c := &conditions[i]; c.Type != v1alpha1.ConditionAnnotations {
			boundText(&c.Reason, &c.Message)
		}
	}
	return conditions
}

// essential returns what decides about the pod.
func essential(status *corev1.PodStatus) corev1.PodStatus {
	kept := corev1.PodStatus{
		Phase: status.Phase[:min(len(status.Phase), maxReason)], StartTime: status.StartTime,
		NominatedNodeName: status.NominatedNodeName, Reason: reasonTooLarge, Message: messageTooLarge,
	}
	for _, t := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady, corev1.DisruptionTarget,
		v1alpha1.ConditionDelegate, v1alpha1.ConditionChanges, v1alpha1.ConditionFields,
	} {
		if c := PodCondition(status.Conditions, t); c != nil {
			kept.Conditions = append(kept.Conditions, *c)
		}
	}
	return kept
}

// Shorten returns a text of at most so many bytes: the text itself, or its beginning with a mark.
func Shorten(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	const mark = "…"
	return strings.Clone(strings.ToValidUTF8(text[:bytes-len(mark)], "")) + mark
}
