package claims

import corev1 "k8s.io/api/core/v1"

// ReasonNotExpanded is the reason of the event that says why the copy of a claim is not expanded.
const ReasonNotExpanded = "NotExpanded"

func (c *Claims) recordNotExpanded(pvc *corev1.PersistentVolumeClaim, t *cluster, err error) {
	c.options.Recorder.Eventf(
		pvc,
		nil,
		corev1.EventTypeWarning,
		ReasonNotExpanded,
		"Expand",
		"The claim in %s is not expanded: %s",
		t.name,
		err.Error(),
	)
}
