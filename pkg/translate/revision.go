package translate

import (
	"encoding/json"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	fingerprintLength = 16
	// maxRevision bounds the length of a revision: the digits of a number, a hyphen, and a fingerprint.
	maxRevision = 20 + 1 + fingerprintLength
)

// Revision says which state of a proxy a PodChaperon, or a delegate, has. It is the value of the annotation revision.
type Revision struct {
	// Number counts the changes of the PodChaperon. It is 0 when the PodChaperon is created.
	Number int64
	// Fingerprint is that of the proxy. It is empty if an earlier version created the PodChaperon.
	Fingerprint string
}

// RevisionOf returns the revision of a PodChaperon or delegate. Without a valid annotation it is the zero value.
func RevisionOf(object metav1.Object) Revision {
	value := object.GetAnnotations()[v1alpha1.AnnotationRevision]
	if len(value) > maxRevision {
		return Revision{}
	}
	digits, fingerprint, _ := strings.Cut(value, "-")
	number, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || number < 0 {
		return Revision{}
	}
	return Revision{Number: number, Fingerprint: fingerprint}
}

// String returns the value of the annotation.
func (r Revision) String() string { return strconv.FormatInt(r.Number, 10) + "-" + r.Fingerprint }

// mutable is what may change in a proxy after its creation, as API servers have it.
type mutable struct {
	Labels, Annotations map[string]string
	Tolerations         []corev1.Toleration
	Deadline, Grace     *int64
	Resources           *corev1.ResourceRequirements
	Containers          []mutableContainer
	Ephemeral           []corev1.EphemeralContainer
}

type mutableContainer struct {
	Name, Image string
	Resources   corev1.ResourceRequirements
}

// Fingerprint returns a hash of everything in the proxy that may change after its creation, and that a delegate would
// have. It costs some microseconds. A proxy that is created gets no new fingerprint by being bound, nor by its status.
func Fingerprint(proxy *corev1.Pod) string {
	spec := &proxy.Spec
	m := mutable{
		Labels: ownLabels(proxy), Annotations: passedAnnotations(proxy.Annotations),
		Tolerations: spec.Tolerations,
		Deadline:    spec.ActiveDeadlineSeconds, Grace: spec.TerminationGracePeriodSeconds,
		Resources: spec.Resources, Ephemeral: spec.EphemeralContainers,
	}
	if keep, ok := proxy.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp]; ok {
		m.Annotations[v1alpha1.AnnotationNoPrefixLabelRegexp] = keep
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			m.Containers = append(m.Containers, mutableContainer{c.Name, c.Image, c.Resources})
		}
	}
	return hash(encode(m), fingerprintLength)
}

// encode returns JSON. The values come from API objects, so it cannot fail.
func encode(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

// ShowGeneration makes the status of a proxy say, as a kubelet does, that it belongs to the proxy's generation. The
// delegate must have all changes of the proxy. It does nothing for kubelets that do not say this.
func ShowGeneration(proxy *corev1.Pod, delegate corev1.PodStatus, status *corev1.PodStatus) {
	if delegate.ObservedGeneration > 0 {
		status.ObservedGeneration = proxy.Generation
	}
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if of := PodCondition(delegate.Conditions, c.Type); of != nil && of.ObservedGeneration > 0 &&
			c.Type != corev1.PodScheduled && !ofProxyOnly(proxy, c.Type) {
			c.ObservedGeneration = proxy.Generation
		}
	}
}
