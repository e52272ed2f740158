package chaperon

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Warnings are about delegates.
type Warnings interface {
	// Of returns the conditions that the status of a PodChaperon is to show.
	Of(chaperon *v1alpha1.PodChaperon) []corev1.PodCondition
	// Forget is called when a PodChaperon is gone.
	Forget(chaperon types.NamespacedName)
}

// ShowWarnings makes the Reconciler show warnings in the status of PodChaperons. Without it, it keeps those that it
// finds. Call it before Register. A PodChaperon with new warnings must be woken.
func (r *Reconciler) ShowWarnings(warnings Warnings) { r.warnings = warnings }

// withWarnings returns the status with the newest warnings: those that the PodChaperon shows, and new ones. An earlier
// leader may have written those that it shows.
func (r *Reconciler) withWarnings(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) *corev1.PodStatus {
	all, _ := translate.Warnings(chaperon.Status.Conditions)
	if r.warnings != nil {
		all = append(all, r.warnings.Of(chaperon)...)
	}
	_, others := translate.Warnings(status.Conditions)
	if len(all) == 0 && len(others) == len(status.Conditions) {
		return status
	}
	changed := status.DeepCopy()
	changed.Conditions = slices.Concat(others, translate.NewestWarnings(all...))
	return changed
}

func (r *Reconciler) forgetWarnings(chaperon types.NamespacedName) {
	if r.warnings != nil {
		r.warnings.Forget(chaperon)
	}
}
