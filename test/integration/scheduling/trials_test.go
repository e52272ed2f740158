package scheduling

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// grows lets a target add nodes like those it has, or of the classes given.
func (e *environment) grows(name string, timeout time.Duration, classes ...v1alpha1.ScaleUpNodeClass) {
	e.t.Helper()
	policy := &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{NodeClasses: classes}}
	policy.ScaleUp.Timeout = &metav1.Duration{Duration: timeout}
	e.registry.SetPolicy(e.targets[name].Target, policy)
}

// preempting is a target that evicts other pods for the delegate.
func preempting(chaperon *v1alpha1.PodChaperon) {
	unschedulable(chaperon)
	chaperon.Status.NominatedNodeName = "n"
}

func TestAPodThatFitsNowhereIsGivenToOneTargetThatGrows(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "2", "c2": "2"})
	e.grows("c1", long)
	e.grows("c2", long)
	full := func(chaperon *v1alpha1.PodChaperon) {
		if strings.HasPrefix(chaperon.Name, "big") {
			unschedulable(chaperon)
		} else {
			running(chaperon)
		}
	}
	e.answer("c1", full)
	e.answer("c2", full)
	pod := e.pod("big", "4")
	growing := "c1"
	if len(e.anywhere(1)["c2"]) > 0 {
		growing = "c2"
	}
	if message := e.message(pod); !strings.Contains(message, "Trying "+growing+", which can add nodes") {
		t.Errorf("message is %q", message)
	}
	small := e.pod("small", "1") // does not wait for the big one
	if where := e.bound(small); len(where) != 1 {
		t.Errorf("the small pod is in %v", where)
	}
	chaperon := e.chaperonOf(growing, pod)
	e.targets[growing].say(t, chaperon, running)
	if where := e.bound(pod); where[growing] != 1 {
		t.Errorf("bound to %v, want %s", where, growing)
	}
	if created := e.targets["c1"].created.Load() + e.targets["c2"].created.Load(); created != 2 {
		t.Errorf("%d PodChaperons were created, want one for each pod", created)
	}
}

func TestWhenOneTargetDoesNotGrowInTimeTheNextIsAsked(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "2", "c2": "2"})
	gpus := v1alpha1.ScaleUpNodeClass{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("1"),
	}}
	e.grows("c1", time.Second, gpus)
	e.grows("c2", time.Second, gpus)
	e.answer("c1", unschedulable)
	e.answer("c2", unschedulable)
	pod := e.pod("gpu", "1", func(pod *corev1.Pod) {
		gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: gpu, Limits: gpu}
	})
	first, second := "c1", "c2"
	if len(e.anywhere(1)["c2"]) > 0 {
		first, second = second, first
	}
	e.answer(second, running)
	if where := e.bound(pod); where[second] != 1 {
		t.Errorf("bound to %v, want %s", where, second)
	}
	e.placed(first, 0)
}

func TestAnImportantPodDisturbsOneTargetOnly(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "1", "c2": "1"})
	class := &schedulingv1.PriorityClass{Value: 1000}
	class.Name = e.namespace
	must(t, clusters.source.Client.Create(t.Context(), class))
	lesser := e.burst("low", 2, "1")
	e.bound(lesser...)
	e.answer("c1", preempting)
	e.answer("c2", preempting)
	pod := e.pod("high", "1", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class.Name })
	disturbed := "c1"
	if len(e.anywhere(3)["c2"]) > 1 {
		disturbed = "c2"
	}
	e.targets[disturbed].say(t, e.chaperonOf(disturbed, pod), running)
	if where := e.bound(pod); where[disturbed] != 1 {
		t.Errorf("bound to %v, want %s", where, disturbed)
	}
	if created := e.targets["c1"].created.Load() + e.targets["c2"].created.Load(); created != 3 {
		t.Errorf("%d PodChaperons were created, want one for each pod", created)
	}
}

func TestAnUnimportantPodDisturbsNobody(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "1", "c2": "1"})
	e.bound(e.burst("same", 2, "1")...)
	message := e.message(e.pod("another", "1"))
	if want := "c1, c2: no node has 1 free CPU (largest: 0)"; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q", message, want)
	}
}

// TestFragmentedRoomIsNoRoom has targets with enough room altogether, and on no node.
func TestFragmentedRoomIsNoRoom(t *testing.T) {
	e := start(t, long, map[string]string{"c1": "100", "c2": "100"})
	for _, name := range []string{"c1", "c2"} {
		e.summarizeAs(name, v1alpha1.NodeClass{
			Nodes: 40, Allocatable: room("4"), Free: []v1alpha1.FreeNodes{{Nodes: 40, Resources: room("1500m")}},
		})
	}
	message := e.message(e.pod("big", "2"))
	if want := "c1, c2: no node has 2 free CPUs (largest: 1.5)"; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q", message, want)
	}
	if where := e.bound(e.burst("small", 20, "1500m")...); where["c1"] != 10 || where["c2"] != 10 {
		t.Errorf("small pods are bound to %v", where)
	}
	if created := e.targets["c1"].created.Load() + e.targets["c2"].created.Load(); created != 20 {
		t.Errorf("%d PodChaperons were created: the big pod was given to a target", created)
	}
}

func TestATargetThatHoldsThePodBackHasItsOwnTime(t *testing.T) {
	e := start(t, time.Second, map[string]string{"c1": "100", "c2": "10"})
	policy := &v1alpha1.PlacementPolicy{QueueingTimeout: &metav1.Duration{Duration: 3 * time.Second}}
	e.registry.SetPolicy(e.targets["c1"].Target, policy)
	e.answer("c1", func(chaperon *v1alpha1.PodChaperon) {
		chaperon.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	})
	begin := time.Now()
	if where := e.bound(e.pod("gated", "1")); where["c2"] != 1 {
		t.Errorf("bound to %v, want c2", where)
	}
	if took := time.Since(begin); took < 3*time.Second {
		t.Errorf("c1 had %s, want 3s", took)
	}
}

// TestAGangIsGivenToTheTargetsAsAWhole has targets that let pods go only when all of a gang are there, as queueing systems and autoscalers do: some
// by gates, some because there is no room yet.
func TestAGangIsGivenToTheTargetsAsAWhole(t *testing.T) {
	const size = 40
	e := start(t, long, map[string]string{"c1": "10", "c2": "10"})
	e.grows("c1", long)
	e.grows("c2", long)
	gated := func(chaperon *v1alpha1.PodChaperon) {
		chaperon.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	}
	e.answer("c1", gated)
	e.answer("c2", unschedulable) // growing, or refusing what it seemed to have room for
	gang := e.burst("gang", size, "1")
	for name, chaperons := range e.anywhere(size) {
		t.Logf("%s has %d of them", name, len(chaperons))
		e.answer(name, running)
		for i := range chaperons {
			e.targets[name].say(t, &chaperons[i], running)
		}
	}
	if where := e.bound(gang...); where["c1"]+where["c2"] != size {
		t.Errorf("bound to %v", where)
	}
}
