package feedback

import corev1 "k8s.io/api/core/v1"

// ReasonDelegateLost is the reason of the event on a proxy that is deleted because its delegate was lost.
const ReasonDelegateLost = "DelegateLost"

func (f *Feedback) recordDelegateLost(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateLost, "Delete",
		"Deleting this pod because %s (virtual node %s)", message, proxy.Spec.NodeName)
}
