package feedback

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// The reasons of events on proxies.
const (
	// ReasonDelegateLost means that the proxy is deleted because its delegate was lost.
	ReasonDelegateLost = "DelegateLost"
	// ReasonDelegateUnclear means that the proxy stays as it is, because its PodChaperon in the target cannot be used.
	ReasonDelegateUnclear = "DelegateUnclear"
	// ReasonDelegateLabelled means that the PodChaperon had lost labels, which the source wrote again.
	ReasonDelegateLabelled = "DelegateLabelled"
	// ReasonAddressRefused means that the proxy does not show an address that the target reports.
	ReasonAddressRefused = v1alpha1.ReasonAddressRefused
)

func (f *Feedback) recordDelegateLost(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateLost, "Delete",
		"Deleting this pod because %s (virtual node %s)", message, proxy.Spec.NodeName)
}

func (f *Feedback) recordDelegateUnclear(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateUnclear, "Read",
		"This pod stays as it is because %s (virtual node %s)", message, proxy.Spec.NodeName)
}

func (f *Feedback) recordDelegateLabelled(proxy *corev1.Pod, chaperon string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateLabelled, "Label",
		"The PodChaperon %q of this pod had not the labels of this cluster any more, and has them again "+
			"(virtual node %s)", chaperon, proxy.Spec.NodeName)
}

func (f *Feedback) recordAddressRefused(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonAddressRefused, "Show",
		"%s (virtual node %s)", message, proxy.Spec.NodeName)
}
