package lifecycle

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestRestartsOfContainersThatTheTargetAdded has a mesh in the target whose containers are not in the proxy's spec.
// Each of them restarts.
func TestRestartsOfContainersThatTheTargetAdded(t *testing.T) {
	c2 := engaged(t)
	proxy := env.Proxy(c2.Key.Namespace, "web", withInit)
	delegate := placeAs(t, c2, proxy, func(spec *corev1.PodSpec) {
		sidecar := corev1.Container{Name: "mesh-sidecar", Image: "mesh"}
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = append([]corev1.Container{sidecar}, spec.InitContainers...)
		spec.Containers = append([]corev1.Container{{Name: "mesh", Image: "mesh"}}, spec.Containers...)
	})
	begin(t, proxy, delegate)
	for restarts := range int32(3) {
		for _, added := range []corev1.ContainerState{exited(1), {Running: &corev1.ContainerStateRunning{}}} {
			env.ChangeStatus(t, target, delegate, func(pod *corev1.Pod) {
				pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
					{Name: "mesh-sidecar", State: added}, {Name: "init", State: exited(0), RestartCount: restarts},
				}
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{
					{Name: "mesh", State: added},
					{Name: "app", RestartCount: restarts, State: corev1.ContainerState{
						Running: &corev1.ContainerStateRunning{},
					}},
				}
				pod.Status.Message = fmt.Sprint(restarts, added.Running != nil)
			})
			env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
				init, main := pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses
				if pod.Status.Message != fmt.Sprint(restarts, added.Running != nil) || len(init) != 1 ||
					len(main) != 1 || init[0].RestartCount != restarts || main[0].Name != "app" {
					return fmt.Errorf("after %d restarts: %v, %v", restarts, init, main)
				}
				return nil
			})
		}
	}
}

func withInit(pod *corev1.Pod) {
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init"}}
}

// TestAPIServersRefuseRestartsOfContainersThatASpecLacks says why a proxy must not show them.
func TestAPIServersRefuseRestartsOfContainersThatASpecLacks(t *testing.T) {
	namespace := env.Namespace(t, nil, source)
	pod := &corev1.Pod{ObjectMeta: env.Meta(namespace, "web"), Spec: env.PodSpec()}
	env.Create(t, source, pod)
	for _, restarted := range []bool{false, true} {
		before := pod.DeepCopy()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: exited(1)}}
		if restarted {
			pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}
		err := source.Client.Status().Patch(t.Context(), pod, client.MergeFrom(before), env.FieldOwner)
		if refused := apierrors.IsInvalid(err); refused != restarted {
			t.Errorf("restarted %t: %v", restarted, err)
		}
	}
}
