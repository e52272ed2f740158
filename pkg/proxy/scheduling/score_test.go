package scheduling

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestNormalize(t *testing.T) {
	const percent = shareUnit / 100
	for name, test := range map[string]struct {
		strategy configv1alpha1.PlacementStrategy
		shares   []int64
		want     []int64
	}{
		"one target gets the highest score": {configv1alpha1.Spread, []int64{50 * percent}, []int64{100}},
		"equal targets are equally good": {
			configv1alpha1.Spread, []int64{5 * percent, 5 * percent}, []int64{100, 100},
		},
		"spread: the least difference decides": {
			configv1alpha1.Spread, []int64{5 * percent, 5*percent + 1}, []int64{100, 99},
		},
		"spread: twice as full is half as good": {
			configv1alpha1.Spread, []int64{40 * percent, 20 * percent, 80 * percent}, []int64{50, 100, 25},
		},
		"pack: the fullest target is the best": {
			configv1alpha1.Pack, []int64{40 * percent, 20 * percent, 80 * percent}, []int64{50, 25, 100},
		},
		"pack: the least difference decides": {
			configv1alpha1.Pack, []int64{5 * percent, 5*percent + 1}, []int64{99, 100},
		},
		"no strategy is spread":                 {"", []int64{1, 2}, []int64{100, 50}},
		"a node without anything is not better": {configv1alpha1.Spread, []int64{shareUnit, percent}, []int64{1, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			scores := make(fwk.NodeScoreList, len(test.shares))
			for i, s := range test.shares {
				scores[i].Score = s
			}
			normalize(test.strategy, scores)
			got := make([]int64, len(scores))
			for i, s := range scores {
				got[i] = s.Score
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// place pods one after the other where the score is best, as the scheduler does in a burst.
func place(
	strategy configv1alpha1.PlacementStrategy,
	pods int,
	requests corev1.ResourceList,
	nodes ...*framework.NodeInfo,
) []int {
	counts := make([]int, len(nodes))
	for n := range pods {
		pod := newPod(types.UID(fmt.Sprint(n)), requests)
		d := fit.NewDemand(pod, translate.Constraints{})
		scores := make(fwk.NodeScoreList, len(nodes))
		for i, node := range nodes {
			scores[i].Score = share(d, node)
		}
		normalize(strategy, scores)
		best := 0
		for i := range scores {
			if scores[i].Score > scores[best].Score {
				best = i
			}
		}
		nodes[best].AddPod(pod)
		counts[best]++
	}
	return counts
}

func TestPlacementInBursts(t *testing.T) {
	for name, test := range map[string]struct {
		strategy  configv1alpha1.PlacementStrategy
		pods      int
		requests  corev1.ResourceList
		allocable [][2]string
		want      []int
	}{
		"ten pods over two equal targets": {
			configv1alpha1.Spread, 10, list("cpu", "100m"), [][2]string{{"100", "400Gi"}, {"100", "400Gi"}},
			[]int{5, 5},
		},
		"ten pods without requests": {
			configv1alpha1.Spread, 10, nil, [][2]string{{"100", "400Gi"}, {"100", "400Gi"}}, []int{5, 5},
		},
		"tiny pods over huge targets": {
			configv1alpha1.Spread, 100, list("cpu", "1m"), [][2]string{{"10000", "40Ti"}, {"10000", "40Ti"}},
			[]int{50, 50},
		},
		"others use a little more in one target": {
			configv1alpha1.Spread, 10, list("cpu", "100m", "memory", "1Gi"),
			[][2]string{{"15500m", "60Gi"}, {"15", "59Gi"}}, []int{5, 5},
		},
		"a target twice as big gets more": {
			configv1alpha1.Spread, 30, list("cpu", "1"), [][2]string{{"200", "1Ti"}, {"100", "1Ti"}}, []int{19, 11},
		},
		"pack fills one target": {
			configv1alpha1.Pack, 10, list("cpu", "100m"), [][2]string{{"100", "400Gi"}, {"99", "400Gi"}}, []int{0, 10},
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := make([]*framework.NodeInfo, len(test.allocable))
			for i, a := range test.allocable {
				nodes[i] = newNode(fmt.Sprint(i), resources(a[0], a[1]))
			}
			if diff := cmp.Diff(test.want, place(test.strategy, test.pods, test.requests, nodes...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestShare(t *testing.T) {
	const percent = shareUnit / 100
	all := list("cpu", "10", "memory", "100", "ephemeral-storage", "100", "nvidia.com/gpu", "10", "pods", "100")
	without := list("cpu", "10", "memory", "100")
	for name, test := range map[string]struct {
		requests, allocatable, used corev1.ResourceList
		want                        int64
	}{
		"no requests, and an empty node": {nil, all, nil, 1 * percent},
		"no requests, and a pod":         {nil, all, list("cpu", "5"), 2 * percent},
		"CPU":                            {list("cpu", "1"), all, list("cpu", "4"), (2 + 50) * percent / 2},
		"memory":                         {list("memory", "10"), all, list("memory", "20"), (2 + 30) * percent / 2},
		"storage": {
			list("ephemeral-storage", "10"), all, list("ephemeral-storage", "50"), (2 + 60) * percent / 2,
		},
		"GPUs": {list("nvidia.com/gpu", "2"), all, list("nvidia.com/gpu", "4"), (2 + 60) * percent / 2},
		"two resources": {
			list("cpu", "1", "memory", "10"), all, list("cpu", "4", "memory", "20"), (2 + 50 + 30) * percent / 3,
		},
		"a node that has nothing of it": {list("nvidia.com/gpu", "2"), without, nil, shareUnit},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode("n", test.allocatable)
			if test.used != nil {
				node.AddPod(newPod("used", test.used))
			}
			got := share(fit.NewDemand(newPod("p", test.requests), translate.Constraints{}), node)
			if off := got - test.want; off < -1 || off > 1 {
				t.Errorf("share is %d, want %d", got, test.want)
			}
		})
	}
}

func TestWeights(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	for name, test := range map[string]struct {
		strategy configv1alpha1.PlacementStrategy
		weight   *int32
		share    int64
		want     int64
	}{
		"spread, no weight":           {configv1alpha1.Spread, nil, 600, 600},
		"spread, twice the weight":    {configv1alpha1.Spread, new(int32(200)), 600, 300},
		"spread, half of the weight":  {configv1alpha1.Spread, new(int32(50)), 600, 1200},
		"pack, no weight":             {configv1alpha1.Pack, nil, 600, 600},
		"pack, twice the weight":      {configv1alpha1.Pack, new(int32(200)), 600, 1200},
		"spread, nothing of a target": {configv1alpha1.Spread, new(int32(200)), 0, 1},
		"pack, nothing of a target":   {configv1alpha1.Pack, new(int32(200)), 0, 1},
	} {
		w.withPolicy(c1, &v1alpha1.PlacementPolicy{Weight: test.weight})
		if got := weighted(test.strategy, test.share, c1); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
	if got := weighted(configv1alpha1.Spread, 600, nil); got != 600 {
		t.Errorf("a target that is gone: %d", got)
	}
}

func TestScoresAreKeptAsTheyDecided(t *testing.T) {
	w, pod, state := newWorld(), newPod("p", list("cpu", "1")), framework.NewCycleState()
	c := &cycle{}
	state.Write(Name, c)
	c.Demand = w.demandOf(t, pod)
	emptier := newNode(w.engage(t, "c1", interceptor.Funcs{}).NodeName, resources("8", "64Gi"))
	fuller := newNode(w.engage(t, "c2", interceptor.Funcs{}).NodeName, resources("8", "64Gi"))
	fuller.AddPod(newPod("q", list("cpu", "4")))
	nodes := []fwk.NodeInfo{emptier, fuller}
	if status := w.PreScore(t.Context(), state, pod, nodes); !status.IsSuccess() || len(c.feasible) != 2 {
		t.Errorf("PreScore: %v, and %v", status, c.feasible)
	}
	score := func(nodes ...fwk.NodeInfo) fwk.NodeScoreList {
		scores := make(fwk.NodeScoreList, len(nodes))
		for i, node := range nodes {
			of, status := w.Score(t.Context(), state, pod, node)
			if !status.IsSuccess() {
				t.Fatal(status)
			}
			scores[i] = fwk.NodeScore{Name: node.Node().Name, Score: of}
		}
		if status := w.ScoreExtensions().NormalizeScore(t.Context(), state, pod, scores); !status.IsSuccess() {
			t.Fatal(status)
		}
		return scores
	}
	first := score(nodes...)
	if first[0].Score != 100 || first[1].Score >= 50 {
		t.Errorf("scores: %v", first)
	}
	_ = score(fuller) // It is the best of one.
	if diff := cmp.Diff(first, c.scores); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}
