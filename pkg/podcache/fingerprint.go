package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// annotationFingerprint is the annotation of a proxy in the cache that holds the fingerprint of the whole proxy.
const annotationFingerprint = v1alpha1.GroupName + "/cached-fingerprint"

// Fingerprint returns translate.Fingerprint of a proxy, which may come from the cache.
func Fingerprint(proxy *corev1.Pod) string {
	if kept, ok := proxy.Annotations[annotationFingerprint]; ok && proxy.Spec.RestartPolicy == "" {
		return kept
	}
	return translate.Fingerprint(proxy)
}

// keepFingerprint stores the fingerprint of the whole proxy in the annotation. A proxy that has the annotation and no
// restart policy was transformed before.
func keepFingerprint(pod, whole *corev1.Pod) {
	if _, ok := whole.Annotations[annotationFingerprint]; ok && whole.Spec.RestartPolicy == "" {
		return
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationFingerprint, translate.Fingerprint(whole))
}
