package quality

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
)

// hopeless is the percentage of pods that fit no empty node, and of which we may say that they could: such a pod waits
// for an autoscaler in vain.
const hopeless = 1

// tied has some of the pods belong to their nodes, and returns the cluster that has no others.
func (g *generator) tied(c *cluster) *cluster {
	for _, pod := range c.pods {
		if kind := pick(g, "DaemonSet", "Node", "ReplicaSet", "ReplicaSet"); kind != "ReplicaSet" {
			pod.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
		}
	}
	empty := &cluster{nodes: c.nodes, pods: slices.Clone(c.pods)}
	for i := len(empty.pods) - 1; i >= 0; i-- {
		if empty.pods[i].OwnerReferences == nil {
			empty.pods = slices.Delete(empty.pods, i, i+1)
		}
	}
	return empty
}

// TestWhetherAnEmptyNodeCouldHoldAPod compares with what kube-scheduler says of nodes with the pods of DaemonSets, and
// static pods, alone.
func TestWhetherAnEmptyNodeCouldHoldAPod(t *testing.T) {
	scheduler := newKubeScheduler(t)
	pods, could, unsure, falseYes := 0, 0, 0, 0
	for n := range *cases / podsOfSmall {
		g := newGenerator(n, 3)
		c := g.cluster(1 + g.IntN(40))
		infos := scheduler.see(g.tied(c))
		room := fit.NewRoom(capacity.Summarize(c.nodes, c.pods, nil), nil)
		for range podsOfSmall {
			pod := g.candidate(c, infos)
			demand, truth := fit.NewDemand(pod, constraints(pod)), scheduler.fits(infos, pod)
			pods++
			switch ours := room.CouldHold(demand); {
			case truth && !ours:
				t.Fatal(report(n, c, pod, "no empty node could hold it"))
			case ours && !truth && named(pod):
				unsure++ // A summary tells no names.
			case ours && !truth:
				falseYes++
			case ours:
				could++
			}
		}
	}
	t.Logf("%d pods: %d fit; of those that do not, %d name a node, and %d could be held", pods, could, unsure, falseYes)
	if falseYes*100 > (pods-could)*hopeless {
		t.Errorf("more than %d%% of the pods that fit no empty node could be held", hopeless)
	}
}

// named says whether a pod names a node.
func named(pod *corev1.Pod) bool {
	spec, err := json.Marshal(constraints(pod))
	if err != nil {
		panic(err)
	}
	return strings.Contains(string(spec), corev1.LabelHostname) ||
		strings.Contains(string(spec), metav1.ObjectNameField)
}
