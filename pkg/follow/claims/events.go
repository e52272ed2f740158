package claims

import corev1 "k8s.io/api/core/v1"

// ReasonNotExpanded is that of the event which tells that the copy of a claim stays as it is.
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
