package scheduling

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
)

// kind of a trial: why a target may take a pod that does not fit there now. Smaller ones are tried first.
type kind int

const (
	// fits is no trial.
	fits kind = iota
	// unsure is for a pod whose constraints are about what the target does not tell of its nodes.
	unsure
	// preempt is for a pod that is more important than others of ours there.
	preempt
	// grow is for a pod for which the target can add a node.
	grow
	// hopeless is no trial either.
	hopeless
)

// String is for users.
func (k kind) String() string {
	switch k {
	case unsure:
		return "unsure"
	case preempt:
		return "preempt"
	case grow:
		return "grow"
	default:
		return ""
	}
}

// trial is the one target that a pod is given to although it does not fit there now.
type trial struct {
	nodeName string
	kind     kind
}

// candidate for a trial.
type candidate struct {
	trial

	refusals int // of the pod by the target, so far
	share    int64
}

// before says whether a candidate is tried before another.
func (c candidate) before(other candidate, better func(a, b int64) bool) bool {
	if c.kind != other.kind {
		return c.kind < other.kind
	}
	if c.refusals != other.refusals {
		return c.refusals < other.refusals // each in turn
	}
	if c.share != other.share {
		return better(c.share, other.share)
	}
	return c.nodeName < other.nodeName
}

// trials knows which pods are tried where, and where other pods were disturbed for them.
type trials struct {
	mu        sync.Mutex // guards what follows
	current   map[types.UID]trial
	among     map[types.UID]map[string]candidate // among which current was chosen, by the node's name
	ended     map[types.UID]struct{}             // whose trial ended without another one
	disturbed map[types.UID]string               // the node of the target that preempts or has preempted for the pod
}

func newTrials() *trials {
	return &trials{
		current: map[types.UID]trial{}, among: map[types.UID]map[string]candidate{}, ended: map[types.UID]struct{}{},
		disturbed: map[types.UID]string{},
	}
}

// start a trial, in place of the pod's last one, chosen among candidates.
func (t *trials) start(pod types.UID, next trial, among map[string]candidate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current[pod], t.among[pod] = next, among
	delete(t.ended, pod)
}

// candidates are those among which the pod's trial was chosen.
func (t *trials) candidates(pod types.UID) map[string]candidate {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.among[pod]
}

// of returns the pod's trial, and where it disturbed others, if it did.
func (t *trials) of(pod types.UID) (now trial, disturbed string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current[pod], t.disturbed[pod]
}

// end the pod's trial, if it is in one.
func (t *trials) end(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.current[pod]; ok {
		t.ended[pod] = struct{}{}
	}
	delete(t.current, pod)
	delete(t.among, pod)
}

// next returns what to do about a pod for which no target was found: begin a trial, or look at all targets again
// because a trial has ended; this is said once.
func (t *trials) next(pod types.UID) (begin trial, again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, again = t.ended[pod]
	delete(t.ended, pod)
	return t.current[pod], again
}

// disturb notes that the target of a node preempts others for the pod.
func (t *trials) disturb(pod types.UID, nodeName string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.disturbed[pod] = nodeName
}

// forget a pod that is bound or gone.
func (t *trials) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.current, pod)
	delete(t.among, pod)
	delete(t.ended, pod)
	delete(t.disturbed, pod)
}

// kindOf says how a target can take a pod, from what is known of its room and of the pods on its virtual node.
func (p *plugin) kindOf(c *cycle, pod *corev1.Pod, t *target, nodeInfo fwk.NodeInfo) kind {
	room := t.ledger.Room()
	if room.Fits(c.demand) {
		return fits
	}
	if room.CouldHold(c.demand) && outranks(pod, nodeInfo) {
		switch {
		case !p.mayDisturb(c, t):
			return hopeless // Its scheduler would preempt, whatever we hope for.
		case !room.Unsure(c.demand):
			return preempt
		}
	}
	return p.kindWithoutPods(c, t)
}

// kindWithoutPods says the same where the pods on the virtual node are not known, and so not whether it may preempt.
func (p *plugin) kindWithoutPods(c *cycle, t *target) kind {
	room := t.ledger.Room()
	switch {
	case room.Fits(c.demand):
		return fits
	case room.Unsure(c.demand):
		return unsure
	case canGrow(c.demand, t, room):
		return grow
	default:
		return hopeless
	}
}

// mayDisturb says whether a target may be asked to preempt others for the pod: only one ever is, as long as it is
// there.
func (p *plugin) mayDisturb(c *cycle, t *target) bool {
	return c.disturbed == "" || c.disturbed == t.NodeName || p.targets.get(c.disturbed) == nil
}

// outranks says whether the pod may preempt one of the proxies on a virtual node.
func outranks(pod *corev1.Pod, nodeInfo fwk.NodeInfo) bool {
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == corev1.PreemptNever {
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

func canGrow(d *fit.Demand, t *target, room *fit.Room) bool {
	if t.Policy().ScaleUp == nil {
		return false
	}
	return room.CouldHold(d) || t.growth().Fits(d)
}
