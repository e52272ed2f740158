package translate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// requesting returns a container that requests devices in each way.
func requesting(name string) corev1.Container {
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")},
		Claims:   []corev1.ResourceClaim{{Name: "lamp"}, {Name: "lights", Request: "desk"}},
	}}
}

// reported returns what a kubelet says of a device for each of the names.
func reported(names ...corev1.ResourceName) []corev1.ResourceStatus {
	var all []corev1.ResourceStatus
	for _, name := range names {
		all = append(all, corev1.ResourceStatus{Name: name, Resources: []corev1.ResourceHealth{{
			ResourceID: "example.com/device=1", Health: corev1.ResourceHealthStatusUnhealthy,
			Message: ptr.To("it is too hot"),
		}}})
	}
	return all
}

func TestTheHealthOfItsOwnDevicesIsShown(t *testing.T) {
	long := strings.Repeat("x", corev1.ResourceHealthMessageMaxLength+1)
	own := []corev1.ResourceName{"claim:lights/desk", "example.com/gpu", "claim:lamp"}
	for what, test := range map[string]struct{ delegate, want []corev1.ResourceStatus }{
		"none": {nil, nil},
		"own, in the order of their names": {
			reported(own...), reported("claim:lamp", "claim:lights/desk", "example.com/gpu"),
		},
		"twice": {reported("claim:lamp", "claim:lamp"), reported("claim:lamp")},
		"others, which the target added": {
			reported("example.com/injected", "claim:injected", "claim:lamp/desk", "claim:lights", "claim:lights/other",
				"lamp", "cpu"), nil,
		},
		"values that nobody knows": {
			[]corev1.ResourceStatus{{Name: "claim:lamp", Resources: []corev1.ResourceHealth{
				{ResourceID: "b", Health: corev1.ResourceHealthStatusUnknown, Message: &long},
				{ResourceID: "a", Health: "Tired"},
				{ResourceID: "a", Health: corev1.ResourceHealthStatusHealthy, Message: ptr.To("")},
				{ResourceID: "a", Health: corev1.ResourceHealthStatusUnknown},
			}}},
			[]corev1.ResourceStatus{{Name: "claim:lamp", Resources: []corev1.ResourceHealth{
				{ResourceID: "a", Health: corev1.ResourceHealthStatusHealthy},
				{ResourceID: "b", Health: corev1.ResourceHealthStatusUnknown},
			}}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			proxy := bound()
			proxy.ResourceVersion = "1"
			proxy.Spec.Containers = []corev1.Container{requesting("main")}
			proxy.Spec.InitContainers = []corev1.Container{requesting("init")}
			delegate := running()
			for _, all := range [][]corev1.ContainerStatus{
				delegate.InitContainerStatuses, delegate.ContainerStatuses, delegate.EphemeralContainerStatuses,
			} {
				all[0].AllocatedResourcesStatus = test.delegate
			}
			next := proxy.DeepCopy()
			next.Status = translate.ProxyStatus(proxy, delegate)
			for name, got := range map[string][]corev1.ResourceStatus{
				"init": next.Status.InitContainerStatuses[0].AllocatedResourcesStatus,
				"main": next.Status.ContainerStatuses[0].AllocatedResourcesStatus,
			} {
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("of container %s (-want +got):\n%s", name, diff)
				}
			}
			if got := next.Status.EphemeralContainerStatuses[0].AllocatedResourcesStatus; got != nil {
				t.Errorf("an ephemeral container, which has no devices, shows %v", got)
			}
			expectValid(t, "the status", validation.ValidatePodStatusUpdate(internal(t, next), internal(t, proxy),
				validation.PodValidationOptions{ResourceIsPod: true}))
		})
	}
}
