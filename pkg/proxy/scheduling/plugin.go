package scheduling

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Name of the scheduler plugin.
const Name = "Admiralty"

// plugin judges targets, and has delegates placed in them.
type plugin struct {
	strategy     configv1alpha1.PlacementStrategy
	targets      *targets
	placements   *placements
	exclusions   *exclusions
	trials       *trials
	demands      demands
	placer       *placer
	explanations *diagnosis.Store
	metrics      *metrics
	// The rest is set when the scheduler starts.
	binder     fwk.BindPlugin
	namespaces corelisters.NamespaceLister
	handle     fwk.Handle
	// changed wakes the pods that a target may take now.
	changed func(*target)
}

// cycle is what is known of a pod in one scheduling cycle.
type cycle struct {
	demand *fit.Demand
	// claims says that the pod refers to PersistentVolumeClaims.
	claims bool
	// holder is the target that has, or may have, the pod's delegate.
	holder *target
	// leftOut says why targets, by their nodes' names, are left out, and refusals how often they refused the pod.
	leftOut  map[string]string
	refusals map[string]int
	// trial is the one that the pod is in; disturbed is the node of the target that preempted others for it.
	trial     trial
	disturbed string
	// feasible are the nodes to be scored, and scores our scores of them.
	feasible []fwk.NodeInfo
	scores   fwk.NodeScoreList

	mu         sync.Mutex // guards what follows: Filter runs for many nodes at once
	candidates map[string]candidate
	objections map[string]string
	accepted   kind // how the target of the trial can take the pod now
}

// Clone returns the same cycle: who clones it asks about the same pod.
func (c *cycle) Clone() fwk.StateData { return c }

// Name is constant.
func (p *plugin) Name() string { return Name }

// PreFilter rejects what did not go through admission, and keeps a pod to the target that has its delegate, after a
// restart say, or that it is tried in.
func (p *plugin) PreFilter(
	_ context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ []fwk.NodeInfo,
) (*fwk.PreFilterResult, *fwk.Status) {
	if status := p.admitted(pod); !status.IsSuccess() {
		return nil, status
	}
	c, err := p.newCycle(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	state.Write(Name, c)
	if c.holder == nil {
		if err := p.placer.follower.Missing(pod); err != nil {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
	}
	switch {
	case c.holder != nil:
		return &fwk.PreFilterResult{NodeNames: sets.New(c.holder.NodeName)}, nil
	case c.trial.kind != fits:
		return &fwk.PreFilterResult{NodeNames: sets.New(c.trial.nodeName)}, nil
	}
	return nil, nil
}

// admitted rejects a pod that admission has not made a proxy, or in a namespace that is not enabled, where there is no
// admission: whoever may create a pod can name our scheduler and write a proxy's annotations.
func (p *plugin) admitted(pod *corev1.Pod) *fwk.Status {
	if !translate.IsProxy(pod) {
		return fwk.NewStatus(
			fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("the pod was not elected when it was created: create it with the "+
				"annotation %s and without a scheduler's name, in an enabled namespace", v1alpha1.AnnotationElect),
		)
	}
	namespace, err := p.namespaces.Get(pod.Namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fwk.AsStatus(fmt.Errorf("getting the pod's namespace: %w", err))
	case err != nil || !enabled(namespace): // One that is not found has not been seen yet.
		return fwk.NewStatus(
			fwk.UnschedulableAndUnresolvable,
			fmt.Sprintf("namespace %s is not enabled: it has no label %s=%s",
				pod.Namespace, v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue),
		)
	}
	return nil
}

func enabled(namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelEnabledNamespace] == v1alpha1.LabelEnabledNamespaceValue
}

// PreFilterExtensions is nil: nothing is computed for pods that might be added or removed.
func (p *plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *plugin) newCycle(pod *corev1.Pod) (*cycle, error) {
	demand, err := p.demands.of(pod)
	if err != nil {
		return nil, err
	}
	c := &cycle{
		demand:   demand,
		claims:   hasClaims(pod),
		holder:   p.placements.holder(pod.UID),
		leftOut:  p.exclusions.reasons(pod.UID),
		refusals: p.exclusions.refusals(pod.UID),
	}
	c.trial, c.disturbed = p.trials.of(pod.UID)
	return c, nil
}

// Filter rejects with UnschedulableAndUnresolvable: evicting proxies here does not help, as nobody here knows which of
// them share a node.
func (p *plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	nodeName := nodeInfo.Node().Name
	t := p.targets.get(nodeName)
	reason := p.objection(c, pod, t)
	if reason == "" && c.holder == nil {
		reason = p.noRoom(c, pod, t, nodeInfo)
	}
	if reason == "" {
		return nil
	}
	c.object(nodeName, reason)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// objection says why a target cannot be given a pod now, whatever its room, for users to read; it is empty if it can.
func (p *plugin) objection(c *cycle, pod *corev1.Pod, t *target) string {
	switch {
	case t == nil:
		return "not connected"
	case !t.Reachable():
		return "not reachable"
	case c.holder == t:
		return ""
	case c.holder != nil:
		return "the pod's delegate is in " + c.holder.name()
	case !t.Allows(pod.Namespace):
		return "takes no pods of namespace " + pod.Namespace
	case c.leftOut[t.NodeName] != "":
		return c.leftOut[t.NodeName]
	case c.claims:
		return p.placer.follower.Objection(pod, t.Target)
	default:
		return ""
	}
}

// noRoom says why the target has no room for the pod, for users to read; it is empty if it has, or if the pod is tried
// there. A target that may take the pod nevertheless is a candidate for a trial.
func (p *plugin) noRoom(c *cycle, pod *corev1.Pod, t *target, nodeInfo fwk.NodeInfo) string {
	k := p.kindOf(c, pod, t, nodeInfo)
	if k == fits || k != hopeless && c.trial.nodeName == t.NodeName {
		c.accept(k)
		return ""
	}
	if k != hopeless {
		c.addCandidate(
			candidate{trial{t.NodeName, k}, c.refusals[t.NodeName], weighted(p.strategy, share(c.demand, nodeInfo), t)},
		)
	}
	return t.ledger.Room().Explain(c.demand)
}

func (c *cycle) accept(k kind) {
	if c.trial.kind != fits { // Only one node is filtered.
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted = k
	}
}

func (c *cycle) addCandidate(next candidate) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.candidates == nil {
		c.candidates = map[string]candidate{}
	}
	c.candidates[next.nodeName] = next
}

func (c *cycle) object(nodeName, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objections == nil {
		c.objections = map[string]string{}
	}
	c.objections[nodeName] = reason
}

// PostFilter chooses the one target in which a pod that fits nowhere is tried. The pod is then scheduled once more, see
// handleFailure.
func (p *plugin) PostFilter(
	_ context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	p.trials.end(pod.UID)                  // The one that the pod was in, if any, did not come about.
	if c, err := read(state); err == nil { // There is none if PreFilter has rejected the pod.
		if best := c.best(p.strategy); best.kind != fits {
			p.trials.start(pod.UID, best, c.candidates)
		}
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// best is the trial to begin; of the kind fits if there is none. All other plugins agreed to it: ours is the last to
// filter.
func (c *cycle) best(strategy configv1alpha1.PlacementStrategy) trial {
	c.mu.Lock()
	defer c.mu.Unlock()
	var best candidate
	for _, next := range c.candidates {
		if best.kind == fits || next.before(best, func(a, b int64) bool { return better(strategy, a, b) }) {
			best = next
		}
	}
	return best.trial
}

// PreScore notes which nodes are scored, to explain the choice.
func (p *plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	c.feasible = nodes
	return nil
}

// Score returns the share in use of the node, by the target's weight, which NormalizeScore turns into a score.
func (p *plugin) Score(
	_ context.Context,
	state fwk.CycleState,
	_ *corev1.Pod,
	nodeInfo fwk.NodeInfo,
) (int64, *fwk.Status) {
	c, err := read(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return weighted(p.strategy, share(c.demand, nodeInfo), p.targets.get(nodeInfo.Node().Name)), nil
}

// ScoreExtensions returns the plugin itself.
func (p *plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore prefers what the placement strategy prefers.
func (p *plugin) NormalizeScore(
	_ context.Context,
	state fwk.CycleState,
	_ *corev1.Pod,
	scores fwk.NodeScoreList,
) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	normalize(p.strategy, scores)
	if c.scores == nil { // Not when they are computed again to explain them.
		c.scores = slices.Clone(scores)
	}
	return nil
}

// Reserve subtracts what the pod takes from the room of its target, unless its delegate is scheduled there already and
// counted by the target itself.
func (p *plugin) Reserve(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	t := p.targets.get(nodeName)
	if t == nil {
		return fwk.NewStatus(fwk.Unschedulable, "not connected any more")
	}
	if found := p.placements.in(t, pod.UID); found == nil || !isScheduled(found) {
		t.ledger.Place(pod.UID, c.demand)
	}
	p.explainChoice(ctx, state, c, pod, nodeName)
	return nil
}

// Unreserve gives back what Reserve subtracted, for others that wait for it.
func (p *plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, nodeName string) {
	if t := p.targets.get(nodeName); t != nil && t.ledger.Remove(pod.UID) {
		p.changed(t)
	}
}

func read(state fwk.CycleState) (*cycle, error) {
	data, err := state.Read(Name)
	if err != nil {
		return nil, fmt.Errorf("reading the state of the scheduling cycle: %w", err)
	}
	c, ok := data.(*cycle)
	if !ok {
		return nil, fmt.Errorf("reading the state of the scheduling cycle: it is a %T", data)
	}
	return c, nil
}
