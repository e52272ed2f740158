package scheduling

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheRoomOfNodesToAddFollowsThePolicy(t *testing.T) {
	w, demand := newWorld(), newPod("p", list("nvidia.com/gpu", "1"))
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	grows := func() bool { return c1.growth().Fits(w.demandOf(t, demand)) }
	if c1.growth() != nil {
		t.Error("there is room without a policy")
	}
	w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
	if grows() {
		t.Error("a node without GPUs has room")
	}
	w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{
		NodeClasses: []v1alpha1.ScaleUpNodeClass{{Allocatable: list("cpu", "8", "nvidia.com/gpu", "8", "pods", "9")}},
	}})
	if !grows() {
		t.Error("a node with GPUs has no room")
	}
	if known := c1.growth(); known != c1.growth() {
		t.Error("it is computed each time")
	}
}

func TestAnEngagementThatHasEndedDoesNotRemoveTheNext(t *testing.T) {
	w := newWorld()
	earlier, next := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c1", interceptor.Funcs{})
	w.targets.remove(earlier)
	if w.targets.get(next.NodeName) != next || w.targets.placing(next.NodeName) != next.Target {
		t.Error("the next one is not there")
	}
	if w.targets.remove(next); w.targets.get(next.NodeName) != nil || w.targets.placing(next.NodeName) != nil {
		t.Error("it is still there")
	}
}
