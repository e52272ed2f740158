package diagnosis

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func exactly(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now().Add(-d)) }

// proxy returns a proxy with requests, as changed.
func proxy(change func(*corev1.Pod)) *corev1.Pod {
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web", UID: "1",
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, Containers: []corev1.Container{{Name: "app", Resources: requests}},
			NodeSelector: map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// ordinary returns a pod that admission did not make a proxy, as changed.
func ordinary(change func(*corev1.Pod)) *corev1.Pod {
	return proxy(func(pod *corev1.Pod) {
		pod.Annotations = nil
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		pod.Spec.NodeSelector = nil
		if change != nil {
			change(pod)
		}
	})
}

func enabled() *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "team", Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}}
}

func boundTo(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = "admiralty-c2"
		pod.Status.Phase = phase
	}
}

// placed is the explanation of a pod that is bound to c2.
func placed() *Explanation {
	return &Explanation{
		Namespace: "team", Name: "web", UID: "1", Node: "admiralty-c2", Time: ago(3 * time.Hour),
		Targets: []Target{{Name: "c2", Node: "admiralty-c2", Chosen: true}, {Name: "c3", Node: "admiralty-c3"}},
	}
}
