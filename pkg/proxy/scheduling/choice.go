package scheduling

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

// Explain what was seen, tried and answered for a pod, if it is one of those that were scheduled last.
func (s *Scheduler) Explain(pod types.NamespacedName) (diagnosis.Explanation, bool) {
	return s.plugin.explanations.Get(pod)
}

// explainChoice reports how the targets compared for a pod that one of them can take.
func (p *plugin) explainChoice(ctx context.Context, state fwk.CycleState, c *cycle, pod *corev1.Pod, chosen string) {
	if c.holder != nil || c.Trial.Exists() { // The others were not looked at.
		p.explanations.Chose(pod, p.nameOf(chosen), chosen)
		return
	}
	looked := p.scored(ctx, state, c, pod, chosen)
	if len(looked) == 0 { // Only one was feasible, which is not scored.
		looked = []diagnosis.Target{{Node: chosen}}
	}
	for i := range looked {
		looked[i].Chosen = looked[i].Node == chosen
	}
	c.mu.Lock()
	for nodeName, reason := range c.objections {
		looked = append(
			looked,
			diagnosis.Target{Node: nodeName, Reason: reason, Trial: c.candidates[nodeName].Prospect.String()},
		)
	}
	c.mu.Unlock()
	p.explanations.Looked(pod, "", p.named(looked))
}

// compared is how many targets are reported with their scores.
const compared = 10

// scored returns the scores of the best of the feasible nodes and of the chosen one, and the names of the others. The
// framework does not hand its scores out, so they are computed again.
func (p *plugin) scored(
	ctx context.Context,
	state fwk.CycleState,
	c *cycle,
	pod *corev1.Pod,
	chosen string,
) []diagnosis.Target {
	if len(c.feasible) == 0 {
		return nil
	}
	preferred := make(map[string]bool, compared)
	preferred[chosen] = true
	slices.SortFunc(c.scores, func(a, b fwk.NodeScore) int { return cmp.Compare(b.Score, a.Score) })
	for _, s := range c.scores[:min(len(c.scores), compared-1)] {
		preferred[s.Name] = true
	}
	detailed := make([]fwk.NodeInfo, 0, compared)
	all := make([]diagnosis.Target, 0, len(c.feasible))
	for _, nodeInfo := range c.feasible {
		if name := nodeInfo.Node().Name; preferred[name] {
			detailed = append(detailed, nodeInfo)
		} else {
			all = append(all, diagnosis.Target{Node: name})
		}
	}
	scores, status := p.handle.RunScorePlugins(ctx, state, pod, detailed)
	if !status.IsSuccess() {
		log.FromContext(ctx).Error(status.AsError(), "Could not compute the scores of a pod to explain them")
		return nil
	}
	for i := range scores {
		all = append(all, withScores(&scores[i]))
	}
	return all
}

func withScores(scores *fwk.NodePluginScores) diagnosis.Target {
	t := diagnosis.Target{
		Node:   scores.Name,
		Score:  &scores.TotalScore,
		Scores: make(map[string]int64, len(scores.Scores)),
	}
	for _, of := range scores.Scores {
		t.Scores[of.Name] = of.Score
	}
	return t
}

// named fills in the names of targets.
func (p *plugin) named(looked []diagnosis.Target) []diagnosis.Target {
	for i := range looked {
		looked[i].Name = p.nameOf(looked[i].Node)
	}
	return looked
}

// nameOf is how users know the target of a node.
func (p *plugin) nameOf(nodeName string) string {
	if t := p.targets.get(nodeName); t != nil {
		return t.Name()
	}
	return nodeName
}
