package feedback

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The reasons of events on proxies.
const (
	// ReasonDelegateLost means that the proxy is deleted because its delegate was lost.
	ReasonDelegateLost = "DelegateLost"
	// ReasonDelegateFenced means that the end of a proxy in a lost target is confirmed: its delegate was fenced.
	ReasonDelegateFenced = "DelegateFenced"
	// ReasonDelegateUnclear means that the proxy stays as it is, because its PodChaperon in the target cannot be used.
	ReasonDelegateUnclear = "DelegateUnclear"
	// ReasonDelegateLabelled means that the PodChaperon had lost labels, which the source wrote again.
	ReasonDelegateLabelled = "DelegateLabelled"
	// ReasonChangeNotApplied means that a change of the proxy did not reach its delegate.
	ReasonChangeNotApplied = "ChangeNotApplied"
	// ReasonFieldsDropped means that the delegate lacks fields that the proxy has.
	ReasonFieldsDropped = "FieldsDropped"
	// ReasonAnnotationsMissing means that the proxy lacks annotations of its delegate that it is to have.
	ReasonAnnotationsMissing = "AnnotationsMissing"
	// ReasonStatusRefused means that the API server refuses the delegate's status as that of the proxy.
	ReasonStatusRefused = "StatusRefused"
	// ReasonAddressRefused means that the proxy does not show an address that the target reports.
	ReasonAddressRefused = v1alpha1.ReasonAddressRefused
)

func (f *Feedback) recordDelegateLost(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateLost, "Delete",
		"Deleting this pod because %s (virtual node %s)", message, proxy.Spec.NodeName)
}

func (f *Feedback) recordFenced(proxy *corev1.Pod) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonDelegateFenced, "Delete",
		"Confirming the end of this pod although its target cannot be reached: the target must have stopped the "+
			"delegate by now, if its manager and kubelets work, because it has not heard of this cluster for longer "+
			"than %s s (virtual node %s)",
		proxy.Annotations[v1alpha1.AnnotationFencedAfter], proxy.Spec.NodeName)
}

// recordUnfenced records one event for all of its calls: the recorder counts those that are alike.
func (f *Feedback) recordUnfenced(lost client.Object, sibling string) {
	f.options.Recorder.Eventf(lost, nil, corev1.EventTypeWarning, v1alpha1.ReasonFencingDoesNotHold, "Fence",
		"Pods of this target are not fenced: it is lost, but %s leads to the same cluster, which hears of this "+
			"cluster there. Repair the connection of this target, or delete its pods", sibling)
}

func (f *Feedback) recordUnconfirmed(lost client.Object, cause string) {
	f.options.Recorder.Eventf(lost, nil, corev1.EventTypeWarning, v1alpha1.ReasonFencingDoesNotHold, "Fence",
		"The end of fenced pods of this target is not confirmed while the target is lost, because %s. Repair the "+
			"connection; or, if its machines are surely off, declare this by the taint %s on its virtual node %s",
		cause, corev1.TaintNodeOutOfService, translate.VirtualNodeName(client.ObjectKeyFromObject(lost)))
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

func (f *Feedback) recordStatusRefused(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonStatusRefused, "Show",
		"This pod shows an old status, because the API server refuses that of its delegate: %s (virtual node %s)",
		message, proxy.Spec.NodeName)
}

func (f *Feedback) recordChangeNotApplied(proxy *corev1.Pod, message string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonChangeNotApplied, "Change",
		"A change of this pod did not reach its delegate: %s (virtual node %s)", message, proxy.Spec.NodeName)
}

func (f *Feedback) recordAnnotationsMissing(proxy *corev1.Pod, why string) {
	f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonAnnotationsMissing, "Annotate",
		"This pod lacks annotations that its delegate has: %s (virtual node %s)", why, proxy.Spec.NodeName)
}

// recordChanges records that the status is the first one to say that the delegate lacks a change, and why.
func (f *Feedback) recordChanges(proxy *corev1.Pod, status *corev1.PodStatus) {
	is := translate.PodCondition(status.Conditions, v1alpha1.ConditionChanges)
	was := translate.PodCondition(proxy.Status.Conditions, v1alpha1.ConditionChanges)
	if is != nil && (was == nil || was.Message != is.Message) {
		f.recordChangeNotApplied(proxy, is.Message)
	}
}

// recordFields records that the status is the first one to say that the delegate lacks fields.
func (f *Feedback) recordFields(proxy *corev1.Pod, status *corev1.PodStatus) {
	is := translate.PodCondition(status.Conditions, v1alpha1.ConditionFields)
	was := translate.PodCondition(proxy.Status.Conditions, v1alpha1.ConditionFields)
	if is != nil && was == nil {
		f.options.Recorder.Eventf(proxy, nil, corev1.EventTypeWarning, ReasonFieldsDropped, "Place",
			"The containers of this pod run without fields of its spec: %s (virtual node %s)",
			translate.WarningMessage(is.Message), proxy.Spec.NodeName)
	}
}
