package chaperon

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// warnUncreatedAgain is the least time between two warnings, with different messages, that a delegate is not created.
const warnUncreatedAgain = time.Minute

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

// warnUncreated shows why the API server fails to create the delegate: a webhook does not answer, say. Nobody in the
// source sees the log of this manager. It writes each message once, and no more than one in warnUncreatedAgain, because
// some messages differ each time. If the PodChaperon has changed, or cannot be written, the next failure is shown.
func (r *Reconciler) warnUncreated(ctx context.Context, chaperon *v1alpha1.PodChaperon, failure error) {
	if ctx.Err() != nil || apierror.Of(failure, apierror.Create) == apierror.Conflict {
		return // The manager stops, was slow itself, or tries again at once.
	}
	warning := translate.Warning(translate.WarningFailedCreate, apierror.Message(failure), r.clock.Now())
	status := r.withWarnings(chaperon, &chaperon.Status).DeepCopy()
	warnings, others := translate.Warnings(status.Conditions)
	if shown := translate.PodCondition(warnings, warning.Type); shown != nil &&
		(shown.Message == warning.Message || r.clock.Since(shown.LastTransitionTime.Time) < warnUncreatedAgain) {
		return
	}
	status.Conditions = slices.Concat(others, translate.NewestWarnings(append(warnings, warning)...))
	if _, err := r.patchStatus(ctx, chaperon, status); err != nil {
		log.FromContext(ctx).Error(err, "Showing why the delegate is not created failed")
	}
}

// warned says whether there are warnings about a delegate. They are shown also if its status says nothing yet: no
// scheduler looks at a pod that lacks a ResourceClaim, say.
func (r *Reconciler) warned(chaperon *v1alpha1.PodChaperon, pod *corev1.Pod) bool {
	return pod != nil && metav1.IsControlledBy(pod, chaperon) && r.warnings != nil && len(r.warnings.Of(chaperon)) > 0
}

func (r *Reconciler) forgetWarnings(chaperon types.NamespacedName) {
	if r.warnings != nil {
		r.warnings.Forget(chaperon)
	}
}
