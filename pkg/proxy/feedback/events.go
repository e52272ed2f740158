package feedback

import corev1 "k8s.io/api/core/v1"

// ReasonDelegateLost is that of the event which tells why a proxy is deleted that nobody deleted in the source cluster.
const ReasonDelegateLost = "DelegateLost"

func (f *Feedback) recordDelegateLost(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateLost, "Delete",
		"Deleting this pod because %s (virtual node %s)", message, proxy.Spec.NodeName)
}
