package translate_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	quota "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func requirements(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: cpus(amount), Limits: cpus(amount)}
}

// counting returns a bound proxy with a sidecar, a container of 2 CPUs, and perhaps so many CPUs as a whole.
func counting(whole string) *corev1.Pod {
	proxy := bound()
	proxy.Spec.Overhead = cpus("250m")
	proxy.Spec.InitContainers = []corev1.Container{{
		Name: "sidecar", Resources: requirements("500m"), RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
	}}
	proxy.Spec.Containers[0].Resources = requirements("2")
	if whole != "" {
		proxy.Spec.Resources = ptr.To(requirements(whole))
	}
	return proxy
}

// claiming returns the status of a delegate that claims to have this amount everywhere.
func claiming(amount string, conditions ...corev1.PodCondition) corev1.PodStatus {
	status := running(conditions...)
	container := func(name string) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{
			{Name: name, AllocatedResources: cpus(amount), Resources: ptr.To(requirements(amount))},
		}
	}
	status.InitContainerStatuses, status.ContainerStatuses = container("sidecar"), container("main")
	status.AllocatedResources, status.Resources = cpus(amount), ptr.To(requirements(amount))
	return status
}

func TestQuotasCountTheSpec(t *testing.T) {
	refused := corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible,
	}
	count := func(pod *corev1.Pod) corev1.ResourceList {
		t.Helper()
		used, err := quota.PodUsageFunc(pod, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	for _, whole := range []string{"", "3"} {
		for name, status := range map[string]corev1.PodStatus{
			"as much":                      claiming("2"),
			"more":                         claiming("1000"),
			"less":                         claiming("1m"),
			"less, after a refused resize": claiming("1m", refused),
			"more, after a refused resize": claiming("1000", refused),
			"other resources": func() corev1.PodStatus {
				status := claiming("2")
				status.ContainerStatuses[0].AllocatedResources["example.com/gpu"] = resource.MustParse("8")
				status.ContainerStatuses[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("8Gi")
				return status
			}(),
		} {
			for generation := range int64(3) {
				proxy := counting(whole)
				proxy.Generation = generation
				want := count(proxy)
				proxy.Status = translate.ProxyStatus(proxy, status)
				if diff := cmp.Diff(want, count(proxy)); diff != "" {
					t.Errorf("%s, %q as a whole, generation %d: the quota counts (-spec +status):\n%s",
						name, whole, generation, diff)
				}
			}
		}
	}
}

func TestAProxyThatWasResizedShowsTheConditions(t *testing.T) {
	deferred := corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred,
	}
	for generation, want := range map[int64]bool{1: false, 2: true} {
		proxy := counting("")
		proxy.Generation = generation
		got := translate.ProxyStatus(proxy, claiming("1", deferred))
		if c := translate.PodCondition(got.Conditions, deferred.Type); (c != nil) != want {
			t.Errorf("generation %d: condition %v", generation, c)
		}
	}
}

func TestAProxyThatWasNotChangedShowsNoAmountsAndCanBeResized(t *testing.T) {
	proxy := counting("3")
	proxy.Generation, proxy.ResourceVersion = 1, "1"
	delegate := claiming("1")
	delegate.ContainerStatuses[0].State.Running = &corev1.ContainerStateRunning{}
	proxy.Status = translate.ProxyStatus(proxy, delegate)
	if r := proxy.Status.Resources; r == nil || r.Requests != nil || r.Limits != nil {
		t.Errorf("the pod shows %v", r)
	}
	for _, c := range slices.Concat(proxy.Status.InitContainerStatuses, proxy.Status.ContainerStatuses) {
		if r := c.Resources; r == nil || r.Requests != nil || r.Limits != nil || c.AllocatedResources != nil {
			t.Errorf("container %s shows %v and %v", c.Name, c.Resources, c.AllocatedResources)
		}
	}
	resized := proxy.DeepCopy()
	resized.Spec.Containers[0].Resources = requirements("2500m")
	for _, err := range validation.ValidatePodResize(internal(t, resized), internal(t, proxy),
		validation.PodValidationOptions{ResourceIsPod: true}) {
		if strings.Contains(err.Error(), "support for resize") {
			t.Error(err)
		}
	}
}

func TestAmountsOfAnHonestStatusAreShown(t *testing.T) {
	proxy := counting("")
	proxy.Generation = 2
	status := claiming("2")
	status.InitContainerStatuses[0].AllocatedResources = cpus("500m")
	status.InitContainerStatuses[0].Resources = ptr.To(requirements("500m"))
	status.AllocatedResources, status.Resources = cpus("2500m"), ptr.To(requirements("2500m"))
	got := translate.ProxyStatus(proxy, status)
	for _, pair := range [][2]any{
		{status.InitContainerStatuses, got.InitContainerStatuses}, {status.ContainerStatuses, got.ContainerStatuses},
		{status.AllocatedResources, got.AllocatedResources}, {status.Resources, got.Resources},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("unexpected amounts (-delegate +proxy):\n%s", diff)
		}
	}
}
