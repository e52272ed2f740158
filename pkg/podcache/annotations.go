package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// annotationAdded is the annotation of a delegate in the cache that holds the added annotations of the whole delegate.
const annotationAdded = v1alpha1.GroupName + "/cached-added-annotations"

// AddedAnnotations returns translate.AddedAnnotations of a delegate, which may come from the cache.
func AddedAnnotations(delegate *corev1.Pod) string {
	if kept, ok := delegate.Annotations[annotationAdded]; ok && delegate.Spec.RestartPolicy == "" {
		return kept
	}
	return translate.AddedAnnotations(delegate)
}

// keepAdded stores the annotations that others gave a delegate. A delegate that has annotationAdded and no restart
// policy was transformed before.
func keepAdded(pod, whole *corev1.Pod) {
	if _, ok := whole.Annotations[annotationAdded]; ok && whole.Spec.RestartPolicy == "" {
		return
	}
	delete(pod.Annotations, annotationAdded)
	if added := translate.AddedAnnotations(whole); added != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationAdded, added)
	}
}
