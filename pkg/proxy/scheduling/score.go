package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
)

// shareUnit is a share of one, as an integer. It is fine enough to compare targets of a million pods.
const shareUnit = 1_000_000_000

// defaultWeight of targets, see v1alpha1.PlacementPolicy.
const defaultWeight = 100

// share returns the part of a virtual node that is in use once the pod is on it. It is the mean over the number of pods
// and each resource that the pod requests. So every pod counts, however little it requests. Pods that are still being
// placed are in nodeInfo.
func share(d *fit.Demand, nodeInfo fwk.NodeInfo) int64 {
	requested, allocatable := nodeInfo.GetRequested(), nodeInfo.GetAllocatable()
	sum := part(int64(len(nodeInfo.GetPods())), 1, int64(allocatable.GetAllowedPodNumber()))
	quantities := d.Quantities()
	for _, q := range quantities {
		switch q.Name {
		case corev1.ResourceCPU:
			sum += part(requested.GetMilliCPU(), q.Amount, allocatable.GetMilliCPU())
		case corev1.ResourceMemory:
			sum += part(requested.GetMemory(), q.Amount, allocatable.GetMemory())
		case corev1.ResourceEphemeralStorage:
			sum += part(requested.GetEphemeralStorage(), q.Amount, allocatable.GetEphemeralStorage())
		default:
			sum += part(requested.GetScalarResources()[q.Name], q.Amount, allocatable.GetScalarResources()[q.Name])
		}
	}
	return int64(sum / float64(1+len(quantities)) * shareUnit)
}

func part(used, more, all int64) float64 {
	if all <= 0 {
		return 1
	}
	return float64(used+more) / float64(all)
}

// weighted returns the share in use of a target as the placement strategy compares it. Spread fills a target of twice
// the weight to twice the share. Pack prefers it as if it were twice as full.
func weighted(strategy configv1alpha1.PlacementStrategy, share int64, t *target) int64 {
	weight := int64(defaultWeight)
	if t != nil {
		if set := t.Policy().Weight; set != nil {
			weight = int64(*set)
		}
	}
	if strategy == configv1alpha1.Pack {
		return max(1, share*weight/defaultWeight)
	}
	return max(1, share*defaultWeight/weight)
}

// normalize turns shares into scores: 100 for the best, and for the others what their distance from it leaves, in
// proportion, but never 100.
func normalize(strategy configv1alpha1.PlacementStrategy, scores fwk.NodeScoreList) {
	best := scores[0].Score
	for _, s := range scores {
		if better(strategy, s.Score, best) {
			best = s.Score
		}
	}
	for i := range scores {
		s := &scores[i]
		switch {
		case s.Score == best:
			s.Score = fwk.MaxScore
		case strategy == configv1alpha1.Pack:
			s.Score = min(fwk.MaxScore*s.Score/best, fwk.MaxScore-1)
		default:
			s.Score = min(fwk.MaxScore*best/s.Score, fwk.MaxScore-1)
		}
	}
}

func better(strategy configv1alpha1.PlacementStrategy, a, b int64) bool {
	if strategy == configv1alpha1.Pack {
		return a > b
	}
	return a < b
}
