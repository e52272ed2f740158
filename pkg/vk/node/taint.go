package node

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ensureTaint keeps new pods away from an existing virtual node while its target's manager is silent. It leaves the
// taints of others as they are. virtual-kubelet does not change taints.
func (r *Reconciler) ensureTaint(ctx context.Context, f facts) error {
	if f.existing == nil {
		return nil // Its creation is an event.
	}
	taints := withSilence(f.existing.Spec.Taints, f.status)
	if taints == nil {
		return nil
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: f.existing.Name, UID: f.existing.UID, ResourceVersion: f.existing.ResourceVersion,
	}}
	node.Spec.Taints = f.existing.Spec.Taints
	before := node.DeepCopy()
	node.Spec.Taints = taints
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.options.Client.Patch(ctx, node, patch, client.FieldOwner(fieldOwner))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // The cache lags, and its event follows.
	}
	if err != nil {
		return fmt.Errorf("changing the taints of node %q: %w", node.Name, err)
	}
	return nil
}

// withSilence returns the taints of a node with the taint of silence, or without it, or nil if they are as they should
// be.
func withSilence(taints []corev1.Taint, status v1alpha1.TargetStatus) []corev1.Taint {
	silent := meta.IsStatusConditionFalse(status.Conditions, v1alpha1.ConditionAwake)
	ours := func(t corev1.Taint) bool {
		return t.Key == v1alpha1.TaintSilent && t.Effect == corev1.TaintEffectNoSchedule
	}
	if slices.ContainsFunc(taints, ours) == silent {
		return nil
	}
	if silent {
		silence := corev1.Taint{Key: v1alpha1.TaintSilent, Effect: corev1.TaintEffectNoSchedule}
		return append(slices.Clone(taints), silence)
	}
	return slices.DeleteFunc(slices.Clone(taints), ours)
}
