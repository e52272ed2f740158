package scheduling

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// grows lets a target add nodes like those it has, or of the classes given.
func (s *scheduler) grows(t *testing.T, name string, timeout time.Duration, classes ...v1alpha1.ScaleUpNodeClass) {
	t.Helper()
	policy := &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{NodeClasses: classes}}
	policy.ScaleUp.Timeout = &metav1.Duration{Duration: timeout}
	s.setPolicy(name, policy)
}

func TestAPodThatFitsNowhereIsGivenToOneTargetThatGrows(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "2", "c2": "2"})
	s.grows(t, "c1", long)
	s.grows(t, "c2", long)
	full := func(chaperon *v1alpha1.PodChaperon) {
		if strings.HasPrefix(chaperon.Name, "big") {
			unschedulable(chaperon)
		} else {
			running(chaperon)
		}
	}
	s.answer("c1", full)
	s.answer("c2", full)
	pod := s.pod(t, "big", "4")
	growing := "c1"
	if len(s.anywhere(t, 1)["c2"]) > 0 {
		growing = "c2"
	}
	if message := messageOf(t, pod); !strings.Contains(message, "Trying "+growing+", which can add nodes") {
		t.Errorf("message is %q", message)
	}
	small := s.pod(t, "small", "1") // It does not wait for the big one.
	if where := bound(t, small); len(where) != 1 {
		t.Errorf("the small pod is in %v", where)
	}
	s.targets[growing].write(t, s.chaperonOf(t, growing, pod), running)
	expectBound(t, pod, growing)
	s.expectCreated(t, 2)
}

func TestWhenOneTargetDoesNotGrowInTimeTheNextIsAsked(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "2", "c2": "2"})
	gpus := v1alpha1.ScaleUpNodeClass{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), "nvidia.com/gpu": resource.MustParse("1"),
	}}
	s.grows(t, "c1", time.Second, gpus)
	s.grows(t, "c2", time.Second, gpus)
	var first atomic.Pointer[string] // the target that is asked first, and does not grow
	for _, name := range []string{"c1", "c2"} {
		s.answer(name, func(chaperon *v1alpha1.PodChaperon) {
			if first.CompareAndSwap(nil, &name); *first.Load() == name {
				unschedulable(chaperon)
			} else {
				running(chaperon)
			}
		})
	}
	pod := s.pod(t, "gpu", "1", func(pod *corev1.Pod) {
		gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: gpu, Limits: gpu}
	})
	if where := bound(t, pod); where[*first.Load()] > 0 {
		t.Errorf("the pod is in %v, which did not grow", where)
	}
	s.placed(t, *first.Load(), 0)
}

func TestAPodThatWaitsForANodeMovesWhenAnotherTargetHasRoom(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "2", "c2": "2"})
	s.grows(t, "c1", long)
	s.answer("c1", unschedulable)
	s.answer("c2", running)
	pods := s.burst(t, "big", 2, "4")
	s.placed(t, "c1", 2)
	s.summarizeAs(t, "c2", v1alpha1.NodeClass{
		Nodes: 1, Allocatable: room("100"), Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room("4")}},
	})
	s.placed(t, "c2", 1)
	stays := s.placed(t, "c1", 1)
	for _, pod := range pods {
		if stays.Name != translate.DelegateName(pod) {
			expectBound(t, pod, "c2")
		}
	}
	s.expectCreated(t, 3)
}

func TestAnImportantPodDisturbsOneTargetOnly(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "1", "c2": "1"})
	class := &schedulingv1.PriorityClass{Value: 1000}
	class.Name = s.namespace
	env.Create(t, source, class)
	bound(t, s.burst(t, "low", 2, "1")...)
	s.answer("c1", preempting)
	s.answer("c2", preempting)
	pod := s.pod(t, "high", "1", func(pod *corev1.Pod) { pod.Spec.PriorityClassName = class.Name })
	disturbed := "c1"
	if len(s.anywhere(t, 3)["c2"]) > 1 {
		disturbed = "c2"
	}
	s.targets[disturbed].write(t, s.chaperonOf(t, disturbed, pod), running)
	expectBound(t, pod, disturbed)
	s.expectCreated(t, 3)
}

func TestAPodWithoutPriorityDisturbsNoTarget(t *testing.T) {
	s := start(t, long, map[string]string{"c1": "1", "c2": "1"})
	bound(t, s.burst(t, "same", 2, "1")...)
	message := messageOf(t, s.pod(t, "another", "1"))
	if want := "c1, c2: no node has 1 free CPU (largest: 0)"; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q", message, want)
	}
}

// TestFragmentedRoomIsNoRoom has targets whose nodes have enough room together. No node has enough alone.
func TestFragmentedRoomIsNoRoom(t *testing.T) {
	s := start(t, long, equal())
	s.stop()
	for _, name := range []string{"c1", "c2"} {
		s.summarizeAs(t, name, v1alpha1.NodeClass{
			Nodes: 40, Allocatable: room("4"), Free: []v1alpha1.FreeNodes{{Nodes: 40, Resources: room("1500m")}},
		})
	}
	s.run(t, long)
	message := messageOf(t, s.pod(t, "big", "2"))
	if want := "c1, c2: no node has 2 free CPUs (largest: 1.5)"; !strings.Contains(message, want) {
		t.Errorf("message is %q, want %q", message, want)
	}
	if where := bound(t, s.burst(t, "small", 20, "1500m")...); where["c1"] != 10 || where["c2"] != 10 {
		t.Errorf("small pods are bound to %v", where)
	}
	s.expectCreated(t, 20)
}

func TestATargetThatHoldsThePodBackHasItsOwnTime(t *testing.T) {
	s := start(t, 5*time.Second, map[string]string{"c1": "100", "c2": "10"})
	s.setPolicy("c1", &v1alpha1.PlacementPolicy{QueueingTimeout: &metav1.Duration{Duration: 8 * time.Second}})
	s.answer("c1", gated)
	begin := time.Now()
	expectBound(t, s.pod(t, "gated", "1"), "c2")
	if took := time.Since(begin); took < 8*time.Second {
		t.Errorf("c1 had %s, want 8s", took)
	}
}

// TestAGangIsGivenToTheTargetsAsAWhole has targets that release pods only when the whole gang exists, as queueing
// systems and autoscalers do. c1 gates the pods, c2 has no room yet.
func TestAGangIsGivenToTheTargetsAsAWhole(t *testing.T) {
	const size = 40
	s := start(t, long, map[string]string{"c1": "10", "c2": "10"})
	s.grows(t, "c1", long)
	s.grows(t, "c2", long)

	s.answer("c1", gated)
	s.answer("c2", unschedulable) // It grows, or refuses pods although it seemed to have room.
	gang := s.burst(t, "gang", size, "1")
	for name, chaperons := range s.anywhere(t, size) {
		t.Logf("%s has %d of them", name, len(chaperons))
		s.answer(name, running)
		for i := range chaperons {
			s.targets[name].write(t, &chaperons[i], running)
		}
	}
	if where := bound(t, gang...); where["c1"]+where["c2"] != size {
		t.Errorf("bound to %v", where)
	}
}
