package diagnosis

import (
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// FromPlugin says why the kube-scheduler plugin of that name rejected a virtual node. The words of the common plugins
// are about nodes, so ours about clusters replace them. Any other reason is marked as kube-scheduler's own word.
func FromPlugin(plugin string, reasons []string) string {
	reason := strings.Join(reasons, ", ")
	switch plugin {
	case "NodeUnschedulable":
		return "cordoned"
	case "NodeAffinity":
		return "does not match the pod's constraints on clusters"
	case "PodTopologySpread":
		return "does not match the pod's topology spread constraints on clusters"
	case "InterPodAffinity":
		return "does not match the pod's affinity to pods on clusters"
	case "TaintToleration":
		if strings.Contains(reason, v1alpha1.TaintSilent) {
			return "its manager is silent"
		}
		if strings.Contains(reason, v1alpha1.TaintUnresponsive) {
			return "its API server does not answer well, so it gets no new pods for a while"
		}
		const theirs = "node(s) had untolerated taint(s)"
		const ours = "its virtual node has a taint that the pod does not tolerate"
		return strings.Replace(reason, theirs, ours, 1)
	default:
		return KubeScheduler(reason)
	}
}

// KubeScheduler marks a text as kube-scheduler's own word, which may speak of nodes where users think of clusters.
func KubeScheduler(text string) string {
	return "kube-scheduler says: " + text
}
