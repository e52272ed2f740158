package main

import (
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// scenario is a fleet and the pods that arrive there. The same seed makes the same scenario.
type scenario struct {
	name, about string
	seed        uint64
	// horizon is how long the simulation lasts at most, from the first pod.
	horizon  time.Duration
	generate func(g *generator)
}

// generator makes fleets and pods from a seed.
type generator struct {
	*rand.Rand

	clusters []*cluster
	arrivals []*arrival
}

// cluster is what a target consists of.
type cluster struct {
	name   string
	nodes  []*corev1.Node
	policy *v1alpha1.PlacementPolicy
	// grows is nil if there is no autoscaler.
	grows *nodeGroup
	// daemons are what the pods of DaemonSets request on each node.
	daemons size
	// quota is how many thousandths of CPUs delegates may request there. If 0, there is no quota.
	quota int64
	// queue is the same, but delegates wait behind gates until there is room. If 0, there are no gates.
	queue int64
}

// arrival is a pod that somebody creates.
type arrival struct {
	at  time.Duration
	pod *corev1.Pod
	// kind is the same for pods that are equal but for their names, and gang for those that belong together.
	kind, gang string
}

// made generates the fleet and the pods of a scenario.
func (s scenario) made() *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(s.seed, 0))} //nolint:gosec // repeatable
	s.generate(g)
	return g
}

// scenarios are those of the report, in its order.
func scenarios() []scenario {
	const minute = time.Minute
	return []scenario{
		{"services", "3 clusters, Deployments that fill 85 % of the CPUs", 1, 5 * minute, services(3, 0.85)},
		{"services, full", "3 clusters, Deployments that ask for 110 % of the CPUs", 2, 5 * minute, services(3, 1.1)},
		{"mixed nodes", "10 clusters with small and large nodes, zones, taints and GPUs; all kinds of pods", 3,
			10 * minute, mixed(10, 1)},
		{"batch", "3 clusters; jobs of 20 to 90 s, as many as there is room for", 4, 15 * minute, batch(3, 1)},
		{"batch, overload", "3 clusters; the same for 3 minutes, with half as many again", 5, 15 * minute,
			batch(3, 1.5)},
		{"big pods", "5 clusters full of small jobs; then pods that need a whole node", 6, 15 * minute, bigPods(5)},
		{"a big pod", "3 clusters, 80 % full of small pods, of which 200 come each minute for 10 minutes; one pod " +
			"that needs half a node", 13, 14 * minute, bigPod(3, 1)},
		{"a big pod, slowly", "3 clusters, the same, but small pods last for 4 minutes, and 200 come in that time", 16,
			45 * minute, bigPod(3, 4)},
		{"gangs", "5 clusters; gangs of 8 to 24 pods, each in one cluster", 7, 10 * minute, gangs(5)},
		{"autoscalers", "5 clusters with 2 nodes, which add nodes; 3 times as many pods", 8, 15 * minute, growing(5)},
		{"autoscalers, DaemonSets", "4 clusters, which add nodes; pods for which DaemonSets leave room in one only", 14,
			20 * minute, beside(4)},
		{"quotas", "5 clusters; quotas of 30 to 90 % of their CPUs, which no summary shows", 9, 10 * minute, quotas(5)},
		{"priorities", "5 clusters, full of Deployments; then more important ones that ask for 40 % of the CPUs", 15,
			10 * minute, priorities(5)},
		{"queues", "5 clusters, 2 of which hold delegates back behind gates, at 50 % of their CPUs", 10, 25 * minute,
			queues(5)},
		{"many clusters", "30 clusters, all kinds of pods", 11, 10 * minute, mixed(30, 1)},
		{"very many clusters, mixed", "200 clusters, all kinds of pods, which ask for 20 % of the CPUs", 17,
			5 * minute, mixed(200, 0.25)},
		{"very many clusters", "200 clusters, Deployments that fill 70 % of the CPUs", 12, 5 * minute,
			services(200, 0.7)},
	}
}
