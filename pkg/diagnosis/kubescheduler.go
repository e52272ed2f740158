package diagnosis

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// FromPlugin says why the kube-scheduler plugin of that name rejected a virtual node. The words of the common plugins
// are about nodes, so ours about clusters replace them. Any other reason is marked as kube-scheduler's own word.
func FromPlugin(plugin string, reasons []string) string {
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
		return "its virtual node has a taint that the pod does not tolerate"
	default:
		return KubeScheduler(strings.Join(reasons, ", "))
	}
}

// Tainted says why a virtual node with a taint gets no pod that does not tolerate the taint. kube-scheduler's own
// reason does not name the taint.
func Tainted(taint corev1.Taint) string {
	switch taint.Key {
	case v1alpha1.TaintSilent:
		return "its manager is silent"
	case v1alpha1.TaintUnresponsive:
		return "its API server does not answer well"
	case corev1.TaintNodeNotReady:
		return "its virtual node is not ready"
	default:
		return fmt.Sprintf("its virtual node has the taint %s, which the pod does not tolerate", taint.Key)
	}
}

// KubeScheduler marks a text as kube-scheduler's own word, which may speak of nodes where users think of clusters.
func KubeScheduler(text string) string {
	return "kube-scheduler says: " + text
}
