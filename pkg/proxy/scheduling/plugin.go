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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Name of the scheduler plugin.
const Name = "Admiralty"

// plugin compares targets, and has delegates placed in them.
type plugin struct {
	strategy     configv1alpha1.PlacementStrategy
	clock        clock.PassiveClock
	targets      *targets
	attempts     *attempts.Attempts
	placer       *placement.Placer
	elders       *elders
	follower     Follower
	waker        *waker
	stays        *stays
	keeping      *keeping
	explanations *diagnosis.Store
	metrics      *metrics
	// The rest is set when the scheduler starts.
	binder     fwk.BindPlugin
	namespaces corelisters.NamespaceLister
	nodes      corelisters.NodeLister
	handle     fwk.Handle
}

// cycle is what is known of a pod in one scheduling cycle.
type cycle struct {
	attempts.Memory

	// claims says that the pod refers to PersistentVolumeClaims.
	claims bool
	// holder is the target that has, or may have, the pod's delegate.
	holder *placement.Target
	// moves says that the pod waits in its holder, and may move to another target now.
	moves bool
	// leaves says why the holder, which has not scheduled the delegate, takes no pods now. So any other target may have
	// the pod. It is empty if the pod has no such holder.
	leaves string
	// stays says that the holder keeps the delegate, although the pod is scheduled again.
	stays bool
	// feasible are the nodes to be scored, and scores our scores of them.
	feasible []fwk.NodeInfo
	scores   fwk.NodeScoreList

	mu         sync.Mutex // guards what follows: Filter runs for many nodes at once
	candidates map[string]candidate
	objections map[string]string
	accepted   attempts.Prospect // of the target of the trial, now
}

// Clone returns the same cycle, because a clone is about the same pod.
func (c *cycle) Clone() fwk.StateData { return c }

// Name is constant.
func (p *plugin) Name() string { return Name }

// PreFilter rejects what did not go through admission, and keeps a pod to the target that has its delegate, after a
// restart say, or that it is tried in.
func (p *plugin) PreFilter(
	ctx context.Context,
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
	if status := p.awaitsEarlier(ctx, c, pod); !status.IsSuccess() {
		return nil, status
	}
	c.leaves = p.leaves(c, pod)
	if c.holder == nil || c.leaves != "" {
		if err := p.follower.Missing(pod); err != nil {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
		}
	}
	c.moves = p.mayMove(c, pod)
	switch {
	case c.moves:
	case c.holder != nil && c.leaves == "":
		return &fwk.PreFilterResult{NodeNames: sets.New(c.holder.NodeName)}, nil
	case c.Trial.Exists():
		return &fwk.PreFilterResult{NodeNames: sets.New(c.Trial.NodeName)}, nil
	}
	return nil, nil
}

// awaitsEarlier rejects a pod without a delegate of its own while a delegate may run that an earlier leader placed for
// it, or that belongs to an earlier pod of its name.
func (p *plugin) awaitsEarlier(ctx context.Context, c *cycle, pod *corev1.Pod) *fwk.Status {
	if c.holder != nil {
		return nil
	}
	key := client.ObjectKeyFromObject(pod)
	if t := p.placer.Delegates.Predecessor(key, pod.UID); t != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the delegate of an earlier pod of this name is still "+
			"ending in "+t.Name()+": the pod is placed when it has ended, or when you delete it there by force")
	}
	reason, err := p.elders.waits(ctx, pod, func() { p.waker.pod(key, pod.UID) })
	if err != nil {
		return fwk.AsStatus(err)
	}
	if reason != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}

// admitted rejects a pod that admission has not made a proxy, and a pod of a namespace that is not enabled, where there
// is no admission. Whoever may create a pod can name our scheduler and write a proxy's annotations.
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
	memory, err := p.attempts.Of(pod)
	if err != nil {
		return nil, err
	}
	return &cycle{Memory: memory, claims: hasClaims(pod), holder: p.placer.Delegates.Holder(pod.UID)}, nil
}

// Filter rejects with UnschedulableAndUnresolvable. Evicting proxies in the source does not help: the source does not
// know which delegates share a node.
func (p *plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	nodeName := nodeInfo.Node().Name
	t := p.targets.get(nodeName)
	reason := p.closed(c, pod, t)
	switch {
	case reason != "":
	case c.NoNode[nodeName] && c.isFreeFor(t) && canGrow(c.Demand, t, t.Ledger.Room()):
		reason = p.growth(c, t, nodeInfo)
	case c.LeftOut[nodeName] != "":
		reason = c.LeftOut[nodeName]
	case c.isFreeFor(t):
		reason = p.noRoom(c, pod, t, nodeInfo)
	case c.holder != t.Target && (!c.moves || !c.prefers(pod, t, t.Ledger.Room())):
		reason = "the pod's delegate is in " + c.holder.Name()
	}
	if reason == "" {
		return nil
	}
	c.object(nodeName, reason)
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// objection says, for users to read, why a target cannot be given a pod now, whatever its room. It is empty if the
// target can.
func (p *plugin) objection(c *cycle, pod *corev1.Pod, t *target) string {
	if reason := p.closed(c, pod, t); reason != "" {
		return reason
	}
	return c.LeftOut[t.NodeName]
}

// closed says the same, whether or not the target has refused the pod.
func (p *plugin) closed(c *cycle, pod *corev1.Pod, t *target) string {
	switch {
	case t == nil:
		return "not connected"
	case !t.Reachable():
		return "not reachable"
	case !t.Allows(pod.Namespace):
		return "takes no pods of namespace " + pod.Namespace
	case c.holder != t.Target && p.keeping.forOther(t.NodeName, pod):
		return "keeps its room for a pod that has waited longer"
	case c.claims:
		var from *engage.Target
		if c.holder != nil && c.holder != t.Target {
			from = c.holder.Target
		}
		return p.follower.Objection(pod, t.Target.Target, from)
	default:
		return ""
	}
}

// noRoom says, for users to read, why the target has no room for the pod. It is empty if the target has room, or if the
// pod is in a trial there. A target that may take the pod nevertheless becomes a candidate for a trial.
func (p *plugin) noRoom(c *cycle, pod *corev1.Pod, t *target, nodeInfo fwk.NodeInfo) string {
	prospect := p.prospect(c, pod, t, nodeInfo)
	if prospect == attempts.Fits || prospect != attempts.Hopeless && c.Trial.NodeName == t.NodeName {
		c.accept(prospect)
		return ""
	}
	if prospect != attempts.Hopeless {
		c.addCandidate(p.candidate(c, t, nodeInfo, prospect))
	}
	if prospect == attempts.Queue {
		return "pods like this one wait there behind scheduling gates"
	}
	reason := t.Ledger.Room().Explain(c.Demand)
	if p.keeping.keepsFor(t.NodeName, pod.UID) {
		reason += "; it keeps its room for this pod"
	}
	return reason
}

func (c *cycle) accept(prospect attempts.Prospect) {
	if c.Trial.Exists() { // Only one node is filtered.
		c.mu.Lock()
		defer c.mu.Unlock()
		c.accepted = prospect
	}
}

func (c *cycle) object(nodeName, reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.objections == nil {
		c.objections = map[string]string{}
	}
	c.objections[nodeName] = reason
}

// PostFilter chooses the one target in which a pod that fits nowhere is tried. The pod is then scheduled once more: see
// handleFailure.
func (p *plugin) PostFilter(
	ctx context.Context,
	state fwk.CycleState,
	pod *corev1.Pod,
	_ fwk.NodeToStatusReader,
) (*fwk.PostFilterResult, *fwk.Status) {
	var next attempts.Trial
	var prospects map[string]attempts.Prospect
	if c, err := readCycle(state); err == nil { // There is none if PreFilter has rejected the pod.
		if next, prospects = c.nextTrial(p.strategy); !next.Exists() && c.holder == nil && !c.Trial.Exists() {
			p.fitsNowhere(ctx, c, pod)
		}
	}
	p.attempts.Try(pod.UID, next, prospects)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// PreScore notes which nodes are scored, to explain the choice.
func (p *plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	c, err := readCycle(state)
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
	c, err := readCycle(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return weighted(p.strategy, share(c.Demand, nodeInfo), p.targets.get(nodeInfo.Node().Name)), nil
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
	c, err := readCycle(state)
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
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	t := p.targets.get(nodeName)
	if t == nil {
		return fwk.NewStatus(fwk.Unschedulable, "not connected any more")
	}
	if !p.placer.Delegates.ScheduledIn(t.Target, pod.UID) {
		t.Ledger.Place(pod.UID, c.Demand)
		p.keeping.takes(nodeName, pod, c.Demand)
	}
	p.explainChoice(ctx, state, c, pod, nodeName)
	return nil
}

// Unreserve gives back what Reserve subtracted, for others that wait for it. A target that keeps the delegate keeps the
// room.
func (p *plugin) Unreserve(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) {
	if c, err := readCycle(state); err == nil && c.stays {
		return
	}
	if t := p.targets.get(nodeName); t != nil && t.Ledger.Remove(pod.UID) {
		p.waker.targetSoon(t)
	}
}

func readCycle(state fwk.CycleState) (*cycle, error) {
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
