package scheduling

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

// leaves says why the pod can be tried elsewhere although a target has, or may have, its delegate: that target, which
// has not scheduled the delegate, takes no pods now. It is empty otherwise. The delegate stays until another target has
// room.
func (p *plugin) leaves(c *cycle, pod *corev1.Pod) string {
	holder := c.holder
	if holder == nil || !p.placer.Delegates.MayLeave(holder, pod.UID) {
		return ""
	}
	if c.claims {
		if objection := p.follower.Objection(pod, holder.Target, nil); objection != "" {
			return objection
		}
	}
	node, err := p.nodes.Get(holder.NodeName)
	if err != nil { // Only a node that was not seen yet is not found.
		return ""
	}
	return closedTo(node)
}

// closedTo says why a virtual node takes no pods: it is cordoned, or its target's manager is silent, or its API server
// does not answer well. Proxies tolerate none of this. It is empty if the node takes pods.
func closedTo(node *corev1.Node) string {
	if node.Spec.Unschedulable {
		return "it is cordoned"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Key == v1alpha1.TaintSilent || taint.Key == v1alpha1.TaintUnresponsive {
			return diagnosis.Tainted(taint)
		}
	}
	return ""
}

// isFreeFor says whether a target may have the pod although it does not have the delegate.
func (c *cycle) isFreeFor(t *target) bool {
	return c.holder == nil || c.leaves != "" && c.holder != t.Target
}
