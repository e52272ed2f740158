package scheduling

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
)

// targetChange is the event of a *target that may take more pods now, or that is lost and so does not hold its pods
// any more. It is an event of no informer.
const targetChange fwk.EventResource = "targets.v1alpha1.multicluster.admiralty.io"

// namespaceEnabled is the event of a *corev1.Namespace whose proxies are accepted from now on.
const namespaceEnabled fwk.EventResource = "namespaces.v1alpha1.multicluster.admiralty.io"

// EventsToRegister are those that can change what Filter says.
func (p *plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		// A target has more room, is engaged, lost or gone, or its policy has changed.
		{Event: fwk.ClusterEvent{Resource: targetChange, ActionType: fwk.Update}, QueueingHintFn: p.afterTargetChange},
		// The virtual node of a target that was engaged before.
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, QueueingHintFn: p.afterNodeAdd},
		// A target was deleted, or was never connected: nobody waits for it.
		{
			Event:          fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Delete | fwk.UpdateNodeCondition},
			QueueingHintFn: p.afterNodeChange,
		},
		// Its pods were rejected until now.
		{
			Event:          fwk.ClusterEvent{Resource: namespaceEnabled, ActionType: fwk.Update},
			QueueingHintFn: p.afterNamespaceEnabled,
		},
		// What they refer to did not exist until now.
		{
			Event:          fwk.ClusterEvent{Resource: needsAppeared, ActionType: fwk.Update},
			QueueingHintFn: p.afterNeedsAppeared,
		},
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
	delegates, key := p.placer.Delegates, client.ObjectKeyFromObject(pod)
	held := delegates.MayHold(t.Target, pod.UID) || delegates.Follows(t.Target, key, pod.UID)
	if t.Gone() || held && t.Lost() {
		return fwk.Queue, nil // Its delegate is, or may have been, in a lost target: others may take it.
	}
	return p.hint(pod, t)
}

func (p *plugin) afterNodeChange(_ klog.Logger, pod *corev1.Pod, _, _ any) (fwk.QueueingHint, error) {
	if p.elders.includes(pod) {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func (p *plugin) afterNodeAdd(_ klog.Logger, pod *corev1.Pod, _, object any) (fwk.QueueingHint, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return fwk.Queue, fmt.Errorf("a node is a %T", object)
	}
	return p.hint(pod, p.targets.get(node.Name))
}

// hint queues the pod if the target may take it now. Whether there are pods that it outranks is not known without those
// on the virtual node, so a pod with priority is queued if its target could hold it.
func (p *plugin) hint(pod *corev1.Pod, t *target) (fwk.QueueingHint, error) {
	c, err := p.newCycle(pod)
	if err != nil {
		return fwk.Queue, err
	}
	switch {
	case p.elders.includes(pod):
		return fwk.Queue, nil // It waits for all targets that an earlier leader may have placed it in.
	case p.lacks(pod), p.objection(c, pod, t) != "":
		return fwk.QueueSkip, nil
	case c.holder == t.Target:
		return fwk.Queue, nil
	case c.holder != nil && p.leaves(c, pod) == "":
		return fwk.QueueSkip, nil
	case prospectWithoutPods(c, pod, t) == attempts.Hopeless && !p.mayPreempt(c, pod, t):
		return fwk.QueueSkip, nil
	default:
		return fwk.Queue, nil
	}
}
