package quality

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var (
	cases = flag.Int("cases", 3000, "number of pods to compare in each test")
	seed  = flag.Uint64("seed", 1, "seed of the generated clusters and pods")
)

const (
	podsOfSmall = 10  // for each small cluster
	podsOfLarge = 200 // for each large cluster
	// denied is the percentage of fitting pods that we may deny in a cluster beyond the bounds of summaries. At most
	// 1.7 % were denied; the rest is for chance.
	denied = 4
)

// tally counts the pods of a test by the two answers.
type tally struct {
	pods, fit, agreed      int
	falseYes, falseNo      int
	unsure, unsureThatFits int
}

func (c *tally) String() string {
	share := func(n, of int) string { return fmt.Sprintf("%d (%.2f%%)", n, 100*float64(n)/float64(max(of, 1))) }
	const text = "%d pods, %s of which fit: agreed %s; false yes %s; false no %s of those that fit; " +
		"unsure %s, %s of which fit"
	return fmt.Sprintf(text,
		c.pods, share(c.fit, c.pods), share(c.agreed, c.pods), share(c.falseYes, c.pods), share(c.falseNo, c.fit),
		share(c.unsure, c.pods), share(c.unsureThatFits, c.unsure))
}

// count counts a pod. It returns whether our no is false, as the pod fits, and whether our yes is.
func (c *tally) count(room *fit.Room, demand *fit.Demand, truth bool) (falseNo, falseYes bool) {
	c.pods++
	if truth {
		c.fit++
	}
	switch ours := room.Fits(demand); {
	case !ours && room.Unsure(demand):
		c.unsure++
		if truth {
			c.unsureThatFits++
		}
	case ours == truth:
		c.agreed++
	case ours:
		c.falseYes++
		return false, true
	default:
		c.falseNo++
		return true, false
	}
	return false, false
}

func constraints(pod *corev1.Pod) translate.Constraints {
	return translate.Constraints{
		NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations,
	}
}

// TestComparesAsKubeSchedulerDoes uses summaries without bounds: our answers equal kube-scheduler's, except where a pod
// names a node.
func TestComparesAsKubeSchedulerDoes(t *testing.T) {
	scheduler, total := newKubeScheduler(t), &tally{}
	for n := range *cases / podsOfSmall {
		g := newGenerator(n, 3)
		c := g.cluster(1 + g.IntN(20))
		infos := scheduler.see(c)
		room := fit.NewRoom(exactly(infos), nil)
		for range podsOfSmall {
			pod := g.candidate(c, infos)
			demand, truth := fit.NewDemand(pod, constraints(pod)), scheduler.fits(infos, pod)
			if falseNo, falseYes := total.count(room, demand, truth); falseNo || falseYes {
				t.Fatal(report(n, c, pod, room.Explain(demand)))
			}
			if explained := room.Explain(demand) == ""; explained != room.Fits(demand) {
				t.Fatal(report(n, c, pod, room.Explain(demand)))
			}
		}
	}
	t.Log(total)
}

// TestSmallClusters uses clusters of at most 40 nodes: their summaries are exact, except for hostnames.
func TestSmallClusters(t *testing.T) {
	scheduler, total := newKubeScheduler(t), &tally{}
	for n := range *cases / podsOfSmall {
		g := newGenerator(n, 3)
		c := g.cluster(1 + g.IntN(40))
		infos := scheduler.see(c)
		room := fit.NewRoom(capacity.Summarize(c.nodes, c.pods, nil), nil)
		for range podsOfSmall {
			pod := g.candidate(c, infos)
			demand, truth := fit.NewDemand(pod, constraints(pod)), scheduler.fits(infos, pod)
			if falseNo, falseYes := total.count(room, demand, truth); falseNo || falseYes {
				t.Fatal(report(n, c, pod, room.Explain(demand)))
			}
		}
	}
	t.Log(total)
}

// TestLargeClusters uses clusters beyond the bounds of summaries: hundreds of nodes with different free amounts.
func TestLargeClusters(t *testing.T) {
	scheduler := newKubeScheduler(t)
	for name, variety := range map[string]int{
		"a cluster with few different labels and taints": 1,
		"a cluster with dozens of labels and taints":     3,
		"a cluster with hundreds of labels and taints":   12,
	} {
		t.Run(name, func(t *testing.T) {
			total := &tally{}
			for n := range max(3, *cases/3/podsOfLarge) {
				compareLarge(t, scheduler, total, n, variety)
			}
			t.Log(total)
			if total.falseNo*100 > total.fit*denied {
				t.Errorf("more than %d%% of the pods that fit were denied", denied)
			}
		})
	}
}

func compareLarge(t *testing.T, scheduler *kubeScheduler, total *tally, n, variety int) {
	t.Helper()
	g := newGenerator(n, variety)
	c := g.cluster(200 + g.IntN(600))
	infos := scheduler.see(c)
	summary := capacity.Summarize(c.nodes, c.pods, nil)
	bounded(t, summary)
	room, exact := fit.NewRoom(summary, nil), fit.NewRoom(exactly(infos), nil)
	for range podsOfLarge {
		pod := g.candidate(c, infos)
		demand, truth := fit.NewDemand(pod, constraints(pod)), scheduler.fits(infos, pod)
		falseNo, falseYes := total.count(room, demand, truth)
		// A false no must be due to the bounds of the summary.
		if falseYes || falseNo && !exact.Fits(demand) && !exact.Unsure(demand) {
			t.Fatal(report(n, c, pod, room.Explain(demand)))
		}
	}
}

func bounded(t *testing.T, summary *v1alpha1.ClusterSummary) {
	t.Helper()
	vectors := 0
	for i := range summary.Status.Classes {
		vectors += len(summary.Status.Classes[i].Free)
	}
	if len(summary.Status.Classes) > 50 || vectors > 256 {
		t.Fatalf("the summary has %d classes and %d vectors", len(summary.Status.Classes), vectors)
	}
}

// TestPlacedPodsThatASummaryDoesNotCount places pods one after the other, as kube-scheduler does, while the summary
// stays the same.
func TestPlacedPodsThatASummaryDoesNotCount(t *testing.T) {
	const steps, each = 40, 10
	scheduler := newKubeScheduler(t)
	var after [steps / each]tally
	for n := range max(1, *cases/steps) {
		g := newGenerator(n, 1+n%3)
		c := g.cluster(3 + g.IntN(20))
		infos := scheduler.see(c)
		room := fit.NewRoom(capacity.Summarize(c.nodes, c.pods, nil), nil)
		for step := range steps {
			pod := g.pod()
			g.constrain(pod, c)
			demand, truth := fit.NewDemand(pod, constraints(pod)), scheduler.fits(infos, pod)
			after[step/each].count(room, demand, truth)
			if !truth || !room.Fits(demand) {
				continue // The target does not get the pod, or refuses it.
			}
			if !scheduler.place(infos, pod, g.Rand) {
				t.Fatal(report(n, c, pod, "the pod fits, but place found no node"))
			}
			room = room.With(demand)
			if there := places(infos); hasMore(room, there) {
				const text = "-seed %d, cluster %d, after %d pods: by our room, more pods fit than the nodes' %d places"
				t.Fatalf(text, *seed, n, step+1, there)
			}
		}
	}
	for i := range after {
		t.Logf("after %d to %d pods: %v", i*each, i*each+each-1, &after[i])
	}
}

// hasMore reports whether the room takes more pods without requests than there are places.
func hasMore(room *fit.Room, places int) bool {
	anywhere := translate.Constraints{Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
	nothing := fit.NewDemand(&corev1.Pod{}, anywhere)
	for range places {
		room = room.With(nothing)
	}
	return room.Fits(nothing)
}

// places returns how many more pods the nodes take.
func places(infos []fwk.NodeInfo) int {
	n := 0
	for _, info := range infos {
		n += max(0, info.GetAllocatable().GetAllowedPodNumber()-len(info.GetPods()))
	}
	return n
}

func newGenerator(n, variety int) *generator {
	return &generator{Rand: rand.New(rand.NewPCG(*seed, uint64(n))), variety: variety}
}

// report describes a failure: how to repeat it, and the pod.
func report(n int, c *cluster, pod *corev1.Pod, reason string) string {
	spec, err := json.MarshalIndent(pod.Spec, "", "  ")
	if err != nil {
		panic(err)
	}
	const text = "-seed %d, cluster %d with %v: our answer is %q, kube-scheduler's is another\n%s"
	return fmt.Sprintf(text, *seed, n, c, reason, spec)
}
