package scheduling

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
)

// candidate for a trial.
type candidate struct {
	attempts.Trial

	turns int // that the target had so far
	share int64
}

// before says whether a candidate is tried before another.
func (c candidate) before(other candidate, strategy configv1alpha1.PlacementStrategy) bool {
	if c.Prospect != other.Prospect {
		return c.Prospect < other.Prospect
	}
	if c.turns != other.turns {
		return c.turns < other.turns
	}
	if c.share != other.share {
		return better(strategy, c.share, other.share)
	}
	return c.NodeName < other.NodeName
}

func (c *cycle) addCandidate(next candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.candidates == nil {
		c.candidates = map[string]candidate{}
	}
	c.candidates[next.NodeName] = next
}

// nextTrial returns the trial to begin, which may not exist, and the prospects of all candidates. All other plugins
// agreed to the candidates: ours is the last to filter.
func (c *cycle) nextTrial(strategy configv1alpha1.PlacementStrategy) (attempts.Trial, map[string]attempts.Prospect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best candidate
	prospects := make(map[string]attempts.Prospect, len(c.candidates))
	for nodeName, next := range c.candidates {
		prospects[nodeName] = next.Prospect
		if !best.Exists() || next.before(best, strategy) {
			best = next
		}
	}
	return best.Trial, prospects
}

// prospect says how a target can take a pod, given its room and the pods on its virtual node.
func (p *plugin) prospect(c *cycle, pod *corev1.Pod, t *target, nodeInfo fwk.NodeInfo) attempts.Prospect {
	room := t.Ledger.Room()
	if room.Fits(c.Demand) {
		return prospectWithoutPods(c, pod, t)
	}
	if room.MayHold(c.Demand) && outranks(pod, nodeInfo) {
		switch {
		case !p.mayDisturb(c, pod, t) && canGrow(c.Demand, t, room):
			return attempts.Grow // Its scheduler may preempt, too, but the pod waits in no other target now.
		case !p.mayDisturb(c, pod, t):
			return attempts.Hopeless // Its scheduler would preempt in any case.
		case !room.Unsure(c.Demand):
			return attempts.Preempt
		}
	}
	return prospectWithoutPods(c, pod, t)
}

// prospectWithoutPods says the same where the pods on the virtual node are not known, and so not whether the pod may
// preempt.
func prospectWithoutPods(c *cycle, pod *corev1.Pod, t *target) attempts.Prospect {
	room := t.Ledger.Room()
	switch {
	case room.Fits(c.Demand) && t.Ledger.Queues(pod.Namespace, c.Demand):
		return attempts.Queue
	case room.Fits(c.Demand):
		return attempts.Fits
	case room.Unsure(c.Demand):
		return attempts.Unsure
	case canGrow(c.Demand, t, room):
		return attempts.Grow
	default:
		return attempts.Hopeless
	}
}

// mayDisturb says whether a target may be asked to preempt other pods for the pod. Only one target ever is, as long as
// that one could be asked again.
func (p *plugin) mayDisturb(c *cycle, pod *corev1.Pod, t *target) bool {
	return c.Disturbed == "" || c.Disturbed == t.NodeName || !p.couldAskAgain(c, pod, c.Disturbed)
}

// couldAskAgain says whether the target of a node could still be asked to preempt other pods for the pod: it is
// connected and takes pods, and one of its nodes may hold this one.
func (p *plugin) couldAskAgain(c *cycle, pod *corev1.Pod, nodeName string) bool {
	t := p.targets.get(nodeName)
	if t == nil || !t.Allows(pod.Namespace) || !t.Ledger.Room().MayHold(c.Demand) {
		return false
	}
	node, err := p.nodes.Get(nodeName)
	return err != nil || closedTo(node) == ""
}

// mayPreempt says whether a pod could get room from others in the target, whichever are there.
func (p *plugin) mayPreempt(c *cycle, pod *corev1.Pod, t *target) bool {
	return corev1helpers.PodPriority(pod) > 0 && preempts(pod) && p.mayDisturb(c, pod, t) &&
		t.Ledger.Room().MayHold(c.Demand)
}

// preempts says whether a pod may preempt others at all.
func preempts(pod *corev1.Pod) bool {
	return pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever
}

// outranks says whether the pod may preempt one of the proxies on a virtual node.
func outranks(pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	if !preempts(pod) {
		return false
	}
	priority := corev1helpers.PodPriority(pod)
	for _, other := range nodeInfo.GetPods() {
		if corev1helpers.PodPriority(other.GetPod()) < priority {
			return true
		}
	}
	return false
}

// growth says why a target is left out for a pod, unless the pod is in a trial there. The target becomes a candidate:
// its scheduler has found no node although there is room, for reasons that no summary shows, and the target can add
// one.
func (p *plugin) growth(c *cycle, t *target, nodeInfo fwk.NodeInfo) string {
	trial := attempts.Trial{NodeName: t.NodeName, Prospect: attempts.Grow}
	if c.Trial == trial {
		c.accept(trial.Prospect)
		return ""
	}
	c.addCandidate(p.candidate(c, t, nodeInfo, trial.Prospect))
	return c.LeftOut[t.NodeName]
}

func (p *plugin) candidate(c *cycle, t *target, nodeInfo fwk.NodeInfo, prospect attempts.Prospect) candidate {
	return candidate{
		Trial: attempts.Trial{NodeName: t.NodeName, Prospect: prospect},
		turns: c.Turns[t.NodeName],
		share: weighted(p.strategy, share(c.Demand, nodeInfo), t),
	}
}

func canGrow(d *fit.Demand, t *target, room *fit.Room) bool {
	if t.Policy().ScaleUp == nil {
		return false
	}
	return room.CouldHold(d) || t.growth().Fits(d)
}
