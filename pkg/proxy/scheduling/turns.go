package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// turnsName is the name of the scheduler plugin turns.
const turnsName = Name + "Turns"

// turns gives a pod to each target that seems to have room in turn: the one that refused it least often comes first,
// whatever else is preferred. So targets that hold pods back, and come back when their exclusions end, do not keep a
// pod from a target that would run it, however many they are.
type turns struct{}

// Name is constant.
func (turns) Name() string { return turnsName }

// PreScore skips pods that were never refused.
func (turns) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if len(c.Refusals) == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	return nil
}

// Score is how often the node's target refused the pod, which NormalizeScore turns round.
func (turns) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := readCycle(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return int64(c.Refusals[nodeInfo.Node().Name]), nil
}

// ScoreExtensions returns the plugin itself.
func (t turns) ScoreExtensions() fwk.ScoreExtensions { return t }

// NormalizeScore lets those through that refused least often.
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
