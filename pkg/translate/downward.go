package translate

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kubernetes/pkg/fieldpath"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// The downward API shows containers the fields of their own pod: in variables, and in files. The containers of a
// delegate shall see the proxy's fields, because these are the fields of the pod that the user created. So the delegate
// carries their values in annotations and labels, and references lead there. The kubelet reads these again for each
// start of a container, and for files whenever they change, as it does with any pod.

const (
	fieldLabels      = "metadata.labels"
	fieldAnnotations = "metadata.annotations"

	// ownAnnotationsSize is room for the annotations that every PodChaperon has: they hold names and a proof.
	ownAnnotationsSize = 2 << 10
)

// seesDelegate says whether the containers of the proxy's delegate see the delegate's own name, UID, labels,
// annotations and host name. By default they see the proxy's. It fails if the annotation pod-identity is invalid.
func seesDelegate(proxy *corev1.Pod) (bool, *field.Error) {
	value, given := proxy.Annotations[v1alpha1.AnnotationPodIdentity]
	switch {
	case !given || value == v1alpha1.PodIdentityProxy:
		return false, nil
	case value == v1alpha1.PodIdentityDelegate:
		return true, nil
	}
	return false, field.NotSupported(annotationPath(v1alpha1.AnnotationPodIdentity), value,
		[]string{v1alpha1.PodIdentityDelegate, v1alpha1.PodIdentityProxy})
}

// fieldRefs calls do with each reference to a field of the pod itself.
func fieldRefs(spec *corev1.PodSpec, do func(ref *corev1.ObjectFieldSelector)) {
	for i := range spec.InitContainers {
		variables(spec.InitContainers[i].Env, do)
	}
	for i := range spec.Containers {
		variables(spec.Containers[i].Env, do)
	}
	for i := range spec.EphemeralContainers {
		variables(spec.EphemeralContainers[i].Env, do)
	}
	for _, volume := range spec.Volumes {
		if volume.DownwardAPI != nil {
			files(volume.DownwardAPI.Items, do)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.DownwardAPI != nil {
				files(source.DownwardAPI.Items, do)
			}
		}
	}
}

func variables(env []corev1.EnvVar, do func(ref *corev1.ObjectFieldSelector)) {
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			do(e.ValueFrom.FieldRef)
		}
	}
}

func files(files []corev1.DownwardAPIVolumeFile, do func(ref *corev1.ObjectFieldSelector)) {
	for _, file := range files {
		if file.FieldRef != nil {
			do(file.FieldRef)
		}
	}
}

// referToProxy makes a reference to a field of the proxy a reference to the place where the delegate has its value.
func referToProxy(ref *corev1.ObjectFieldSelector) {
	switch ref.FieldPath {
	case "metadata.name":
		ref.FieldPath = fieldAnnotations + "['" + v1alpha1.AnnotationParentName + "']"
	case "metadata.uid":
		ref.FieldPath = fieldLabels + "['" + v1alpha1.LabelParentUID + "']"
	default:
		if key := carrier(ref.FieldPath); key != "" {
			ref.FieldPath = fieldAnnotations + "['" + key + "']"
		}
	}
}

// carrier returns the key of the annotation that carries the value of a field to the delegate. It is empty if the value
// needs no such annotation: the delegate has the user's annotations itself, and the labels of its node. Other fields
// are the target's.
//
// A single label has an annotation, too. Its key on the delegate depends on the pod's other labels, which can change.
func carrier(path string) string {
	switch path {
	case fieldLabels:
		return v1alpha1.AnnotationParentLabels
	case fieldAnnotations:
		return v1alpha1.AnnotationParentAnnotations
	}
	switch field, key, _ := fieldpath.SplitMaybeSubscriptedPath(path); {
	case field == fieldLabels && ofNode(key):
		return ""
	case field == fieldLabels:
		return v1alpha1.AnnotationParentLabelPrefix + hash(key, hashLength)
	case field == fieldAnnotations && !copied(key):
		return v1alpha1.AnnotationParentAnnotationPrefix + hash(key, hashLength)
	}
	return ""
}

// carries says whether an annotation of this key carries a value of the proxy.
func carries(key string) bool {
	return key == v1alpha1.AnnotationParentLabels || key == v1alpha1.AnnotationParentAnnotations ||
		strings.HasPrefix(key, v1alpha1.AnnotationParentLabelPrefix) ||
		strings.HasPrefix(key, v1alpha1.AnnotationParentAnnotationPrefix)
}

// carried returns the annotations that carry values of the proxy to its delegate: those to which the proxy's spec
// refers, as they are now. An annotation pod-identity makes no difference. It counts when the PodChaperon is made, and
// may say something else by now.
func carried(proxy *corev1.Pod) map[string]string {
	out := map[string]string{}
	shown := *proxy
	shown.Labels, shown.Annotations = ownLabels(proxy), maps.Clone(proxy.Annotations)
	// These are no annotations of the user, and all but the first come after the pod was created in the target.
	for key := range fromTarget(proxy.Annotations) {
		delete(shown.Annotations, key)
	}
	delete(shown.Annotations, v1alpha1.AnnotationFromTarget)
	delete(shown.Annotations, v1alpha1.AnnotationOriginalConstraints)
	delete(shown.Annotations, v1alpha1.AnnotationFencedAfter)
	fieldRefs(&proxy.Spec, func(ref *corev1.ObjectFieldSelector) {
		key := carrier(ref.FieldPath)
		if key == "" {
			return
		}
		// A path that is invalid has no value. API servers refuse it.
		if value, err := fieldpath.ExtractFieldPathAsString(&shown, ref.FieldPath); err == nil {
			out[key] = value
		}
	})
	return out
}

// copied says whether a delegate has the proxy's annotation of this key.
func copied(key string) bool {
	return !strings.HasPrefix(key, ownPrefix) && key != corev1.LastAppliedConfigAnnotation
}

// validateCarried refuses a pod whose annotations are too large to be carried to the delegate as well.
func validateCarried(pod *corev1.Pod) *field.Error {
	extra := carried(pod)
	if len(extra) == 0 {
		return nil
	}
	size := ownAnnotationsSize
	for key, value := range pod.Annotations {
		if copied(key) {
			size += len(key) + len(value)
		}
	}
	for key, value := range extra {
		size += len(key) + len(value)
	}
	if size <= validation.TotalAnnotationSizeLimitB {
		return nil
	}
	return field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf(
		"the pod refers to %s or %s, so its delegate has annotations with their values in addition to its own: "+
			"together they have %d bytes, and may have %d: shorten the annotations, or refer to single ones",
		fieldLabels, fieldAnnotations, size, validation.TotalAnnotationSizeLimitB))
}
