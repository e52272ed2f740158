package scheduling

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
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
