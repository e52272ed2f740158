package scheduling

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Name of the scheduler plugin.
const Name = "Admiralty"

// targetChange is the event, in the scheduler's queue, of a *target that may take pods now that it did not take before, or
// that does not hold them any more because it cannot be reached. It is an event of no informer.
const targetChange fwk.EventResource = "targets.v1alpha1.multicluster.admiralty.io"

// namespaceEnabled is the event of a *corev1.Namespace whose pods may be elected from now on.
const namespaceEnabled fwk.EventResource = "namespaces.v1alpha1.multicluster.admiralty.io"

// plugin judges targets, and has delegates placed in them.
type plugin struct {
	strategy   configv1alpha1.PlacementStrategy
	targets    *targets
	placements *placements
	exclusions *exclusions
	capacity   capacity
	placer     *placer
	// binder and namespaces are set when the scheduler starts.
	binder     fwk.BindPlugin
	namespaces corelisters.NamespaceLister
}

// cycle is what Filter and Score need to know of a pod, computed once.
type cycle struct {
	demand  *demand
	holder  *target
	leftOut map[string]string
}

// Clone returns the same cycle, which never changes.
func (c *cycle) Clone() fwk.StateData { return c }

// Name is constant.
func (p *plugin) Name() string { return Name }

// PreFilter rejects what did not go through admission, and keeps a pod to the target that has its delegate, after a restart say.
func (p *plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if status := p.admitted(pod); !status.IsSuccess() {
		return nil, status
	}
	c := p.cycle(pod)
	state.Write(Name, c)
	if c.holder == nil {
		return nil, nil
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(c.holder.NodeName)}, nil
}

// admitted rejects a pod that admission has not made a proxy, or in a namespace that is not enabled, where there is no admission:
// whoever may create a pod can name our scheduler and write a proxy's annotations.
func (p *plugin) admitted(pod *corev1.Pod) *fwk.Status {
	if !translate.IsProxy(pod) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("the pod was not elected when it was created: create it with the "+
			"annotation %s and without a scheduler's name, in an enabled namespace", v1alpha1.AnnotationElect))
	}
	namespace, err := p.namespaces.Get(pod.Namespace)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fwk.AsStatus(fmt.Errorf("getting the pod's namespace: %w", err))
	case err != nil || !enabled(namespace): // One that is not found has not been seen yet.
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, fmt.Sprintf("namespace %s is not enabled: it has no label %s=%s",
			pod.Namespace, v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue))
	}
	return nil
}

func enabled(namespace *corev1.Namespace) bool {
	return namespace.Labels[v1alpha1.LabelEnabledNamespace] == v1alpha1.LabelEnabledNamespaceValue
}

// PreFilterExtensions is nil: adding and removing other pods changes nothing of what PreFilter computes.
func (p *plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (p *plugin) cycle(pod *corev1.Pod) *cycle {
	return &cycle{
		demand:  newDemand(pod),
		holder:  p.placements.holder(pod.UID),
		leftOut: p.exclusions.reasons(pod.UID),
	}
}

// Filter rejects with UnschedulableAndUnresolvable: preempting proxies does not help.
func (p *plugin) Filter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodeInfo fwk.NodeInfo) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if reason := p.objection(c, pod, p.targets.get(nodeInfo.Node().Name)); reason != "" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	return nil
}

// objection says why a target cannot take a pod now, for users to read; it is empty if it may.
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
	}
	return p.capacity.fits(c.demand, t)
}

// Score returns the share in use of the node, which NormalizeScore turns into a score.
func (p *plugin) Score(_ context.Context, state fwk.CycleState, _ *corev1.Pod, nodeInfo fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := read(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	return share(c.demand, nodeInfo), nil
}

// ScoreExtensions returns the plugin itself.
func (p *plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore prefers what the placement strategy prefers.
func (p *plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	normalize(p.strategy, scores)
	return nil
}

// Bind places the delegate, waits until its target has scheduled it, and binds the pod to the virtual node.
func (p *plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	t := p.targets.get(nodeName)
	if t == nil {
		return fwk.AsStatus(fmt.Errorf("placing the delegate: the target of node %q is not connected any more", nodeName))
	}
	if err := p.placer.place(ctx, pod, t); errors.As(err, new(*refusedError)) {
		return fwk.NewStatus(fwk.Unschedulable).WithError(err)
	} else if err != nil {
		return fwk.AsStatus(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return p.binder.Bind(ctx, state, pod, nodeName)
}

// EventsToRegister are those that can change what Filter says. Room on virtual nodes is for NodeResourcesFit.
func (p *plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: targetChange, ActionType: fwk.Update}, QueueingHintFn: p.afterTargetChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: p.afterNodeAdd},
		{Event: fwk.ClusterEvent{Resource: namespaceEnabled, ActionType: fwk.Update}, QueueingHintFn: p.afterNamespaceEnabled},
	}, nil
}

func (p *plugin) afterNamespaceEnabled(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return fwk.Queue, fmt.Errorf("a namespace is a %T", object)
	}
	if namespace.Name != pod.Namespace {
		return fwk.QueueSkip, nil
	}
	return fwk.Queue, nil
}

func (p *plugin) afterTargetChange(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	t, ok := object.(*target)
	if !ok {
		return fwk.Queue, fmt.Errorf("a target is a %T", object)
	}
	if t.gone() || !t.Reachable() && p.placements.in(t, pod.UID) != nil {
		return fwk.Queue, nil // its delegate is, or may have been, out of reach: other targets may take it
	}
	return p.hint(pod, t), nil
}

func (p *plugin) afterNodeAdd(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("a node is a %T", object)
	}
	return p.hint(pod, p.targets.get(node.Name)), nil
}

func (p *plugin) hint(pod *corev1.Pod, t *target) fwk.QueueingHint {
	if p.objection(p.cycle(pod), pod, t) != "" {
		return fwk.QueueSkip
	}
	return fwk.Queue
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
