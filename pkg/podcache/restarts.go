package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// annotationRestartPolicy is the annotation of a proxy in the cache that holds its restart policy, unless that is
// Always.
const annotationRestartPolicy = v1alpha1.GroupName + "/cached-restart-policy"

// RestartsAlways says whether the restart policy of a proxy, which may come from the cache, is Always.
func RestartsAlways(proxy *corev1.Pod) bool {
	if proxy.Spec.RestartPolicy != "" {
		return proxy.Spec.RestartPolicy == corev1.RestartPolicyAlways
	}
	return proxy.Annotations[annotationRestartPolicy] == ""
}

// keepRestartPolicy stores the restart policy of the whole proxy in the annotation. A proxy without a restart policy
// was transformed before, and keeps the annotation that it has.
func keepRestartPolicy(pod, whole *corev1.Pod) {
	if whole.Spec.RestartPolicy == "" {
		return
	}
	delete(pod.Annotations, annotationRestartPolicy)
	if whole.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, annotationRestartPolicy, string(whole.Spec.RestartPolicy))
	}
}
