package podcache

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// annotationNeeds is the annotation of a proxy in the cache that holds the needs of the whole proxy.
const annotationNeeds = v1alpha1.GroupName + "/cached-needs"

// Needs returns the result of needs.Followed for a proxy from the cache.
func Needs(proxy *corev1.Pod) []needs.Need { return needs.Parse(proxy.Annotations[annotationNeeds]) }

// keepNeeds stores the needs of the whole proxy in the annotation. A proxy without a restart policy was transformed
// before, and keeps the annotation that it has.
func keepNeeds(pod, whole *corev1.Pod) {
	if whole.Spec.RestartPolicy == "" {
		return
	}
	delete(pod.Annotations, annotationNeeds)
	followed := needs.Followed(whole)
	if len(followed) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotationNeeds] = needs.Format(followed)
}
