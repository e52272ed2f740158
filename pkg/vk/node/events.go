package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// recordUnseen says that a target was deleted while no manager led, so that nobody has ended its delegates. Its node is
// the only trace of it.
func (r *Reconciler) recordUnseen(ctx context.Context, key types.NamespacedName, node *corev1.Node) {
	command := targetkind.EndCommand(key, r.options.Source.ClusterID)
	log.FromContext(ctx).Info("A target was deleted while no manager led, so its delegates may run on",
		"target", targetkind.Name(key), "command", command)
	r.options.Recorder.Eventf(node, nil, corev1.EventTypeWarning, v1alpha1.ReasonDelegatesMayRun, "Leave",
		"%s was deleted while no manager led: its delegates may run on beside the pods that replace theirs, unless "+
			"they are fenced. To end them, run %s, or connect their cluster again under any name",
		targetkind.Name(key), command)
}
