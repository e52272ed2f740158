package capacity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// TestSummariesNeverOverstateFreeCapacity checks random clusters: for each listed node there is another real node with
// these labels and taints, and with at least the listed amounts free.
func TestSummariesNeverOverstateFreeCapacity(t *testing.T) {
	const clusters = 300 // They take 15 s with the race detector, more on a busy machine.
	reduced := 0
	for seed := range clusters {
		random := rand.New(rand.NewPCG(uint64(seed), 7))
		nodes, pods := randomCluster(random)
		summary := Summarize(nodes, pods, nil)
		if vectors(summary) > maxVectors || len(summary.Status.Classes) > maxClasses {
			t.Fatalf("cluster %d: %d classes with %d vectors", seed, len(summary.Status.Classes), vectors(summary))
		}
		if vectors(summary) > maxVectors/2 {
			reduced++
		}
		free := freeOn(nodes, pods)
		for _, class := range summary.Status.Classes {
			var members []*corev1.Node
			for _, n := range nodes {
				if inClass(n, &class, summary) {
					members = append(members, n)
				}
			}
			if err := checkClass(&class, members, free, len(summary.Status.Classes)); err != nil {
				t.Fatalf("cluster %d, class with labels %v and taints %v: %v", seed, class.Labels, class.Taints, err)
			}
		}
	}
	if reduced < clusters/20 {
		t.Errorf("only %d of %d clusters come near the bound", reduced, clusters)
	}
}

// checkClass returns an error if a class, one of so many, lists its nodes wrongly.
func checkClass(
	class *v1alpha1.NodeClass, members []*corev1.Node, free map[*corev1.Node]amountsFree, classes int,
) error {
	if len(members) != int(class.Nodes) {
		return fmt.Errorf("%d nodes are listed, and there are %d", class.Nodes, len(members))
	}
	if listed, matched := match(class.Free, members, free); matched != listed {
		return fmt.Errorf("%d nodes are listed, and only %d of them exist: %v", listed, matched, class.Free)
	}
	if err := checkListedExactly(class, members, free, maxVectors/classes); err != nil {
		return err
	}
	if classes == 1 {
		return checkLargestListedExactly(class, members, free)
	}
	return nil
}

// randomCluster returns a cluster of up to a few hundred nodes, each more or less full, or overfull.
func randomCluster(random *rand.Rand) (nodes []*corev1.Node, pods []*corev1.Pod) {
	sizes, labelled, tainted := 1+random.IntN(4), random.IntN(5), random.IntN(3)
	for i := range 1 + random.IntN(1+random.IntN(500)) {
		name, size := fmt.Sprint("n", i), 1+random.IntN(sizes)
		n := node(name, fmt.Sprint(4*size), fmt.Sprint(16*size, "Gi"), label(corev1.LabelHostname, name))
		for key := range labelled {
			if values := 1 << (2 * key); random.IntN(10) > 0 {
				n.Labels[fmt.Sprint("key", key)] = fmt.Sprint(random.IntN(values))
			}
		}
		for key := range tainted {
			if random.IntN(5) == 0 {
				effects := []corev1.TaintEffect{
					corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule,
				}
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
					Key: fmt.Sprint("taint", key), Value: fmt.Sprint(random.IntN(3)), Effect: effects[random.IntN(3)],
				})
			}
		}
		n.Spec.Unschedulable = random.IntN(50) == 0
		if random.IntN(20) == 0 {
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		if random.IntN(4) == 0 {
			n.Status.Allocatable["example.com/gpu"] = *resource.NewQuantity(int64(1+random.IntN(8)), resource.DecimalSI)
		}
		n.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(int64(1+random.IntN(8)), resource.DecimalSI)
		nodes = append(nodes, n)
		for p := range random.IntN(6) {
			requested := pod(fmt.Sprint(name, "-", p), name, fmt.Sprintf("%dm", random.IntN(3000)),
				fmt.Sprint(random.Int64N(8<<30)))
			if random.IntN(8) == 0 {
				requested.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
			}
			pods = append(pods, requested)
		}
	}
	return nodes, pods
}

// amountsFree are free amounts of the resources of these clusters: CPU, memory, pods and GPUs.
type amountsFree [4]int64

func amountsIn(list corev1.ResourceList) amountsFree {
	gpus := list["example.com/gpu"]
	return amountsFree{list.Cpu().MilliValue(), list.Memory().Value(), list.Pods().Value(), gpus.Value()}
}

// freeOn returns the free amounts of each node, counted independently.
func freeOn(nodes []*corev1.Node, pods []*corev1.Pod) map[*corev1.Node]amountsFree {
	free, byName := map[*corev1.Node]amountsFree{}, map[string]*corev1.Node{}
	for _, n := range nodes {
		free[n] = amountsIn(n.Status.Allocatable)
		byName[n.Name] = n
	}
	for _, p := range pods {
		rest := free[byName[p.Spec.NodeName]]
		for i, amount := range amountsIn(p.Spec.Containers[0].Resources.Requests) {
			rest[i] -= amount
		}
		rest[2]--
		free[byName[p.Spec.NodeName]] = rest
	}
	return free
}

func inClass(n *corev1.Node, class *v1alpha1.NodeClass, summary *v1alpha1.ClusterSummary) bool {
	want := maps.Clone(summary.Status.CommonLabels)
	if want == nil {
		want = map[string]string{}
	}
	maps.Copy(want, class.Labels)
	got := maps.Clone(n.Labels)
	for _, key := range summary.Status.OmittedLabels {
		delete(got, key)
	}
	return maps.Equal(got, want) && slices.Equal(taints(n), class.Taints)
}

// match finds as many different nodes as possible for the listed ones.
func match(listed []v1alpha1.FreeNodes, members []*corev1.Node, free map[*corev1.Node]amountsFree) (all, matched int) {
	var vectors, rooms []amountsFree
	for i := range listed {
		vectors = append(vectors, slices.Repeat([]amountsFree{amountsIn(listed[i].Resources)}, int(listed[i].Nodes))...)
	}
	for _, n := range members {
		rooms = append(rooms, free[n])
	}
	holders := make([]int, len(rooms)) // the number of the vector of each room, counted from 1
	var find func(int, []bool) bool
	find = func(vector int, seen []bool) bool {
		for i, room := range rooms {
			if seen[i] || !atMost(vectors[vector], room) {
				continue
			}
			seen[i] = true
			if holders[i] == 0 || find(holders[i]-1, seen) {
				holders[i] = vector + 1
				return true
			}
		}
		return false
	}
	for i := range vectors {
		if find(i, make([]bool, len(rooms))) {
			matched++
		}
	}
	return len(vectors), matched
}

// atMost says whether so much is free. Resources that are not listed may be overdrawn.
func atMost(listed, free amountsFree) bool {
	for i, amount := range listed {
		if amount > max(0, free[i]) {
			return false
		}
	}
	return true
}

// checkListedExactly returns an error if a node is not listed exactly, although the bound allows it.
func checkListedExactly(
	class *v1alpha1.NodeClass, members []*corev1.Node, free map[*corev1.Node]amountsFree, room int,
) error {
	want, got := map[amountsFree]int32{}, map[amountsFree]int32{}
	for _, n := range members {
		if rest := free[n]; rest[2] > 0 {
			want[amountsFree{max(0, rest[0]), max(0, rest[1]), rest[2], max(0, rest[3])}]++
		}
	}
	for i := range class.Free {
		got[amountsIn(class.Free[i].Resources)] += class.Free[i].Nodes
	}
	if len(want) <= room && !maps.Equal(got, want) {
		return fmt.Errorf("there are %v, and %v are listed", want, got)
	}
	return nil
}

func checkLargestListedExactly(
	class *v1alpha1.NodeClass, members []*corev1.Node, free map[*corev1.Node]amountsFree,
) error {
	var most, listed amountsFree
	for _, n := range members {
		for i, amount := range free[n] {
			if free[n][2] > 0 {
				most[i] = max(most[i], amount)
			}
		}
	}
	for i := range class.Free {
		for j, amount := range amountsIn(class.Free[i].Resources) {
			listed[j] = max(listed[j], amount)
		}
	}
	if most != listed {
		return fmt.Errorf("the most that is free is %v, and %v is listed", most, listed)
	}
	return nil
}

func vectors(summary *v1alpha1.ClusterSummary) int {
	sum := 0
	for _, class := range summary.Status.Classes {
		sum += len(class.Free)
	}
	return sum
}
