package scheduling

import (
	"context"
	"math"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// turnsName is the name of the scheduler plugin turns.
const turnsName = Name + "Turns"

// turns gives a pod to each target that seems to have room in turn: the one that had it in vain least often comes
// first, whatever else is preferred. The target in which the pod waits comes last. So targets that hold pods back, and
// come back when their exclusions end, do not keep a pod from a target that would run it, however many they are.
type turns struct{}

// Name is constant.
func (turns) Name() string { return turnsName }

// PreScore skips pods that were in no target yet.
func (turns) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(c.Turns) == 0 && c.holder == nil {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is how often the node's target had the pod in vain, which NormalizeScore turns round.
func (turns) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	nodeName := nodeInfo.Node().Name
	if c.holder != nil && c.holder.NodeName == nodeName {
		return math.MaxInt32, nil
	}
	return int64(c.Turns[nodeName]), nil
}

// ScoreExtensions returns the plugin itself.
func (t turns) ScoreExtensions() fwk.ScoreExtensions { return t }

// NormalizeScore lets those through that had the pod least often.
func (turns) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	least := scores[0].Score
	for _, s := range scores {
		least = min(least, s.Score)
	}
	for i := range scores {
		if scores[i].Score == least {
			scores[i].Score = fwk.MaxScore
		} else {
			scores[i].Score = 0
		}
	}
	return nil
}
