package scheduling

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestANewLeaderKnowsWhichProxiesAreBound(t *testing.T) {
	lagging := newPod("p", nil)
	bound := lagging.DeepCopy()
	bound.Spec.NodeName = "n"
	clientset := fake.NewClientset()
	clientset.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pods := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "2"}, Items: []corev1.Pod{*bound}}
		if list, ok := a.(clienttesting.ListActionImpl); ok && list.ListOptions.ResourceVersion == "0" {
			pods.Items = []corev1.Pod{*lagging} // as the watch cache has it
		}
		return true, pods, nil
	})
	informer := newInformers(clientset).Core().V1().Pods().Informer()
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { informer.RunWithContext(ctx); close(stopped) }()
	defer func() { cancel(); <-stopped }()
	if !cache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
		t.Fatal("it has not synced")
	}
	for _, o := range informer.GetStore().List() {
		if pod, ok := o.(*corev1.Pod); !ok || pod.Spec.NodeName == "" {
			t.Errorf("a pod that is bound has no target: %v", o)
		}
	}
	if n := len(informer.GetStore().List()); n != 1 {
		t.Errorf("there are %d pods, want 1", n)
	}
}

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
