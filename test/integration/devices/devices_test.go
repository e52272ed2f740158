package devices

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// expectBound waits until a pod is bound, and checks to which target.
func expectBound(t *testing.T, pod *corev1.Pod, target string) {
	t.Helper()
	env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("the pod is not bound: %v", pod.Status.Conditions)
		}
		return nil
	})
	env.ExpectEqual(t, "virtual node", "admiralty-"+target, pod.Spec.NodeName)
}

// waitRefused waits until a pod says why it fits nowhere.
func waitRefused(t *testing.T, pod *corev1.Pod, why string) {
	t.Helper()
	env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
		c := translate.PodCondition(pod.Status.Conditions, corev1.PodScheduled)
		if c == nil || !strings.Contains(c.Message, why) {
			return fmt.Errorf("the condition is %v, want %q", c, why)
		}
		return nil
	})
}

// run plays the kubelet of a target.
func run(t *testing.T, in *env.Cluster, delegate *corev1.Pod) {
	t.Helper()
	env.ChangeStatus(t, in, delegate, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "app", Image: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
	})
}

func TestAPodGetsADeviceThatNoNodeLists(t *testing.T) {
	for name, resourceOf := range map[string]func(driver) (explicit, requested string){
		"by the resource of the DeviceClass": func(d driver) (string, string) {
			return "example.com/" + d.namespace, "example.com/" + d.namespace
		},
		"by the name of the DeviceClass": func(d driver) (string, string) {
			return "", resourcev1.ResourceDeviceClassPrefix + d.name()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, in := newDriver(t), targets["c2"].Cluster
			explicit, requested := resourceOf(d)
			d.class(t, "c2", explicit)
			d.device(t, "c2")
			proxy := d.pod(t, "p", requested, "")
			expectBound(t, proxy, "c2")

			delegate := env.Get(t, in, &corev1.Pod{ObjectMeta: env.Meta(d.namespace, translate.DelegateName(proxy))})
			status := delegate.Status.ExtendedResourceClaimStatus
			if status == nil {
				t.Fatal("the delegate has no claim")
			}
			meta := env.Meta(d.namespace, status.ResourceClaimName)
			claim := env.Get(t, in, &resourcev1.ResourceClaim{ObjectMeta: meta})
			if a := claim.Status.Allocation; a == nil || len(a.Devices.Results) != 1 ||
				a.Devices.Results[0].Device != "device-0" || a.Devices.Results[0].Driver != d.name() {
				t.Errorf("the allocation is %+v", a)
			}
			run(t, in, delegate)
			env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
				if pod.Status.Phase != corev1.PodRunning {
					return errors.New("the proxy does not run")
				}
				return nil
			})
			if s := proxy.Status.ExtendedResourceClaimStatus; s != nil {
				t.Errorf("the proxy names the claim %s, which is in the target", s.ResourceClaimName)
			}
			env.ExpectEqual(t, "attempts in c1, whose DeviceClasses do not provide it", 0, placed.in("c1", proxy))
		})
	}
}

// TestATargetWithoutAFreeDeviceIsLeftForTheNext also shows that nobody waits for a time-out: that would be an hour.
func TestATargetWithoutAFreeDeviceIsLeftForTheNext(t *testing.T) {
	d := newDriver(t)
	gpu := "example.com/" + d.namespace
	d.class(t, "c1", gpu)
	probe := d.pod(t, "probe", gpu, "c1")
	waitRefused(t, probe, "c1: unschedulable: 0/1 nodes are available")
	env.ExpectEqual(t, "attempts of the first pod", 1, placed.in("c1", probe))

	d.class(t, "c2", gpu)
	d.device(t, "c2")
	weight := int32(10_000)
	registry.SetPolicy(targets["c1"].Target, &v1alpha1.PlacementPolicy{Weight: &weight})
	t.Cleanup(func() { registry.SetPolicy(targets["c1"].Target, &v1alpha1.PlacementPolicy{}) })
	proxy := d.pod(t, "p", gpu, "")
	expectBound(t, proxy, "c2")
	env.ExpectEqual(t, "attempts in the preferred target", 1, placed.in("c1", proxy))

	taken := d.pod(t, "next", gpu, "")
	waitRefused(t, taken, "c2: unschedulable: 0/1 nodes are available")
	env.ExpectEqual(t, "attempts in c1", 1, placed.in("c1", taken))
	env.ExpectEqual(t, "attempts in c2", 1, placed.in("c2", taken))
}

func TestAPodWaitsForADeviceClassAndIsGivenToNoTargetUntilThen(t *testing.T) {
	d := newDriver(t)
	gpu := "example.com/" + d.namespace
	proxy := d.pod(t, "p", gpu, "")
	waitRefused(t, proxy, "c1, c2: no node has 1 free "+gpu+" (largest: 0)")
	env.ExpectEqual(t, "attempts", 0, placed.in("c1", proxy)+placed.in("c2", proxy))

	d.device(t, "c1")
	d.class(t, "c1", gpu)
	expectBound(t, proxy, "c1")
	env.ExpectEqual(t, "attempts", 1, placed.in("c1", proxy)+placed.in("c2", proxy))
}

func TestThePodsOtherRequestsAreComparedAsEver(t *testing.T) {
	d := newDriver(t)
	gpu := "example.com/" + d.namespace
	d.class(t, "c1", gpu)
	d.device(t, "c1")
	expectBound(t, d.pod(t, "small", gpu, "c1"), "c1")
	large := d.pod(t, "large", gpu, "c1", func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("9")
	})
	waitRefused(t, large, "c1: no node has 9 free CPUs (largest: ")
	env.ExpectEqual(t, "attempts", 0, placed.in("c1", large))
}

// TestATargetWithoutDeviceClassesPublishesItsCapacity has an API server as before Kubernetes 1.34.
func TestATargetWithoutDeviceClassesPublishesItsCapacity(t *testing.T) {
	in := env.StartWithout(t, "older", resourcev1.SchemeGroupVersion)
	env.RunManager(t, in.Impersonate(install(t, in)), publish)
	createNode(t, in, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}})
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.WaitFor(t, in, summary, func(summary *v1alpha1.ClusterSummary) error {
		if summary.Status.Nodes != 1 {
			return fmt.Errorf("the summary is %+v", summary.Status)
		}
		return nil
	})
}
