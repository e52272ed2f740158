package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestLargestFreeSaysWhatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		requests, largest corev1.ResourceList
		want              string
	}{
		"a pod that fits exactly":            {list("cpu", "4", "memory", "1Gi"), list("cpu", "4", "memory", "1Gi"), ""},
		"a pod without requests fits":        {nil, list(), ""},
		"CPUs are counted as people do":      {list("cpu", "4"), list("cpu", "1500m"), "no node has 4 free CPUs (largest: 1.5)"},
		"one CPU":                            {list("cpu", "1"), list("cpu", "250m"), "no node has 1 free CPU (largest: 0.25)"},
		"memory is rounded down":             {list("memory", "8Gi"), list("memory", "2201Mi"), "no node has 8Gi of free memory (largest: 2.1Gi)"},
		"little memory":                      {list("memory", "1000"), list("memory", "512"), "no node has 1000 of free memory (largest: 512)"},
		"storage":                            {list("ephemeral-storage", "1Ti"), list("ephemeral-storage", "5Mi"), "no node has 1Ti of free ephemeral storage (largest: 5Mi)"},
		"a resource that no node has":        {list("nvidia.com/gpu", "2"), list("cpu", "4"), "no node has 2 free nvidia.com/gpu (largest: 0)"},
		"nodes that are full of pods":        {nil, list("pods", "0"), "no node takes another pod"},
		"a request of nothing needs nothing": {list("nvidia.com/gpu", "0"), list("cpu", "4"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			at := &target{}
			at.summary.Store(&v1alpha1.ClusterSummary{Status: v1alpha1.ClusterSummaryStatus{LargestFree: test.largest}})
			if got := (largestFree{}).fits(newDemand(newPod("p", test.requests)), at); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	if got := (largestFree{}).fits(newDemand(newPod("p", nil)), &target{}); got == "" {
		t.Error("a pod fits in a target of which nothing is known")
	}
}

func TestRoomier(t *testing.T) {
	base := func(change ...func(*v1alpha1.ClusterSummary)) *v1alpha1.ClusterSummary {
		s := &v1alpha1.ClusterSummary{
			ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{"zone": "a"}},
			Allocatable: list("cpu", "8"),
			Status:      v1alpha1.ClusterSummaryStatus{Nodes: 2, Requested: list("cpu", "4"), LargestFree: list("cpu", "2")},
		}
		for _, f := range change {
			f(s)
		}
		return s
	}
	for name, test := range map[string]struct {
		after *v1alpha1.ClusterSummary
		want  bool
	}{
		"the same":                  {base(), false},
		"a pod more":                {base(func(s *v1alpha1.ClusterSummary) { s.Status.Requested = list("cpu", "5") }), false},
		"a pod less":                {base(func(s *v1alpha1.ClusterSummary) { s.Status.Requested = list("cpu", "3") }), true},
		"a node more":               {base(func(s *v1alpha1.ClusterSummary) { s.Status.Nodes = 3 }), true},
		"a node less":               {base(func(s *v1alpha1.ClusterSummary) { s.Status.Nodes, s.Allocatable = 1, list("cpu", "4") }), false},
		"more of it in one place":   {base(func(s *v1alpha1.ClusterSummary) { s.Status.LargestFree = list("cpu", "3") }), true},
		"a resource that was not":   {base(func(s *v1alpha1.ClusterSummary) { s.Allocatable = list("cpu", "8", "gpu", "1") }), true},
		"nodes of another kind":     {base(func(s *v1alpha1.ClusterSummary) { s.Labels = map[string]string{"zone": "b"} }), true},
		"nothing is known any more": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := roomier(base(), test.after); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if !roomier(nil, base()) {
		t.Error("the first summary is no news")
	}
}
