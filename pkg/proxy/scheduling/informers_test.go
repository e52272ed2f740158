package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestOfABoundProxyIsKeptWhatCountsOnItsNode(t *testing.T) {
	pod := important(newPod("p", list("cpu", "1", "memory", "1Gi")))
	pod.Labels = map[string]string{"app": "web"}
	pod.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "e"}}
	pod.Status.Message = "m"
	if _, err := trim(pod); err != nil || pod.Spec.Volumes == nil || pod.ManagedFields != nil {
		t.Fatalf("a proxy that is to be placed: %v, error %v", pod, err)
	}
	whole := pod.DeepCopy()
	pod.Spec.NodeName = "n"
	if _, err := trim(
		pod,
	); err != nil || pod.Spec.Volumes != nil || pod.Spec.Containers[0].Env != nil || pod.Status.Message != "" ||
		pod.Annotations != nil {
		t.Errorf("a bound proxy: %v, error %v", pod, err)
	}
	if pod.Labels["app"] != "web" || *pod.Spec.Priority != 1000 || pod.UID != "p" {
		t.Errorf("a bound proxy lacks something: %v", pod)
	}
	of := func(pod *corev1.Pod) *framework.Resource {
		info := framework.NewNodeInfo(pod)
		return info.Requested
	}
	if got, want := of(pod), of(whole); got.MilliCPU != want.MilliCPU || got.Memory != want.Memory {
		t.Errorf("it counts %v, want %v", got, want)
	}
}
