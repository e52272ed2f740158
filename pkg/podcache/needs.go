package podcache

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// annotationNeeds is where a proxy in the cache has what the whole one refers to.
const annotationNeeds = v1alpha1.GroupName + "/cached-needs"

// Needs returns what needs.Followed says of a proxy, which is one from the cache.
func Needs(proxy *corev1.Pod) []needs.Need { return needs.Parse(proxy.Annotations[annotationNeeds]) }

// keepNeeds writes down what the whole proxy refers to. One that was transformed before, and has no restart policy any more, keeps what it has.
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
