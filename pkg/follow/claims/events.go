package claims

import corev1 "k8s.io/api/core/v1"

const (
	// ReasonNotExpanded is the reason of the event that says why the copy of a claim is not expanded.
	ReasonNotExpanded = "NotExpanded"
	// ReasonVolumeUnused is the reason of the event that says that the source makes a volume for a claim, too.
	ReasonVolumeUnused = "VolumeUnused"
)

// recordVolumeUnused says that a claim, whose copy was just made, has a volume in the source that no proxy uses, or
// gets one.
func (c *Claims) recordVolumeUnused(pvc *corev1.PersistentVolumeClaim, class string, t *cluster) {
	c.options.Recorder.Eventf(
		pvc,
		nil,
		corev1.EventTypeWarning,
		ReasonVolumeUnused,
		"Follow",
		"The StorageClass %q gives the claim a volume in this cluster at once, which its elected pods do not use: "+
			"they and their volume are in %s. Use a class with volumeBindingMode WaitForFirstConsumer",
		class,
		t.name,
	)
}

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
