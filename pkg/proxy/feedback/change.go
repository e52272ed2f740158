package feedback

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	asking "github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const messageUnsupported = "the target's manager does not say that it applies changes: upgrade it, or create the pod " +
	"again"

// lacksChanges returns the PodChaperon of the proxy, which is bound to the target's node, if the proxy was changed
// since the PodChaperon was made or changed. It compares two hashes that the caches hold, so it costs no request.
func (s *state) lacksChanges(chaperon *v1alpha1.PodChaperon) *v1alpha1.PodChaperon {
	if asking.Begun(chaperon) ||
		translate.RevisionOf(chaperon).Fingerprint == podcache.Fingerprint(s.proxy) {
		return nil
	}
	return chaperon
}

// change gives the PodChaperon the changes of its proxy, as both API servers have them now. So the last state wins,
// whoever led before, and however long the target could not be reached.
func (r *reconciler) change(ctx context.Context, proxy *corev1.Pod, p *plan) error {
	if !r.mayRead(p) {
		return nil
	}
	chaperon := p.change
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	whole := &corev1.Pod{}
	if err := r.options.APIReader.Get(ctx, client.ObjectKeyFromObject(proxy), whole); err != nil {
		return client.IgnoreNotFound(err)
	}
	existing := &v1alpha1.PodChaperon{}
	if err := r.target.APIReader.Get(ctx, client.ObjectKeyFromObject(chaperon), existing); err != nil {
		return client.IgnoreNotFound(err)
	}
	if whole.UID != proxy.UID || whole.Spec.NodeName != r.target.NodeName || existing.UID != chaperon.UID ||
		existing.DeletionTimestamp != nil || existing.Unreadable != "" ||
		translate.RevisionOf(existing).Fingerprint == translate.Fingerprint(whole) {
		return nil // A cache lags, and its event follows.
	}
	to := translate.Destination{Target: r.target.Key}
	changed, err := translate.ChangedChaperon(whole, r.options.Source, to, existing)
	if err != nil {
		r.feedback.recordChangeNotApplied(proxy, err.Error())
		return nil // Only another change of the proxy can help.
	}
	return r.writeChange(ctx, proxy, existing, changed)
}

// writeChange patches the version of the PodChaperon that was read.
func (r *reconciler) writeChange(
	ctx context.Context, proxy *corev1.Pod, existing, changed *v1alpha1.PodChaperon,
) error {
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	err := r.target.Client.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierror.Of(err, apierror.Existing).Refusal():
		r.feedback.recordChangeNotApplied(proxy, "the target refuses it: "+apierror.Message(err))
	}
	if err != nil {
		return fmt.Errorf("changing PodChaperon %q: %w", existing.Name, err)
	}
	return nil
}

// showChanges makes the status say whether the delegate lacks changes of the proxy, and which generation of the proxy
// the delegate's kubelet has seen.
func (s *state) showChanges(chaperon *v1alpha1.PodChaperon, status *corev1.PodStatus) {
	before := translate.PodCondition(s.proxy.Status.Conditions, v1alpha1.ConditionChanges)
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionChanges
	})
	revision := translate.RevisionOf(chaperon)
	said := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionChanges)
	if said != nil && said.ObservedGeneration != revision.Number {
		said = nil
	}
	lacks := corev1.PodCondition{
		Type: v1alpha1.ConditionChanges, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(s.now),
	}
	switch {
	case revision.Number == 0 || said != nil && said.Status == corev1.ConditionTrue:
		if revision.Fingerprint == podcache.Fingerprint(s.proxy) {
			translate.ShowGeneration(s.proxy, chaperon.Status, status)
		}
		return
	case said != nil:
		lacks.Reason, lacks.Message = said.Reason, said.Message
		lacks.LastTransitionTime = said.LastTransitionTime
	case s.changes:
		return
	default:
		lacks.Reason, lacks.Message = v1alpha1.ReasonChangesUnsupported, messageUnsupported
	}
	if before != nil {
		lacks.LastTransitionTime = before.LastTransitionTime
	}
	status.Conditions = append(status.Conditions, lacks)
}
