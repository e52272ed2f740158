package chaperon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/restriction"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	resizeSubresource    = "resize"
	ephemeralSubresource = "ephemeralcontainers"

	// A change that was refused is tried again after firstChangeRetry, and then at growing intervals.
	firstChangeRetry, lastChangeRetry = 5 * time.Second, 5 * time.Minute
)

// mustChange says whether the delegate lacks changes of its PodChaperon. A PodChaperon of an earlier source has no
// revision, so nothing changes its delegate.
func mustChange(chaperon *v1alpha1.PodChaperon, delegate *corev1.Pod) bool {
	return chaperon.DeletionTimestamp == nil && delegate.DeletionTimestamp == nil && chaperon.Unreadable == "" &&
		translate.RevisionOf(chaperon).Number > translate.RevisionOf(delegate).Number
}

// change gives the delegate the changes of its PodChaperon, or records why the target refuses them. The delegate is
// read from the API server, because the cache has a few of its fields only.
func (r *Reconciler) change(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, pod *corev1.Pod,
) (reconcile.Result, error) {
	if wait := r.retries.wait(chaperon, r.clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	live := &corev1.Pod{}
	if err := r.apiReader.Get(ctx, client.ObjectKeyFromObject(pod), live); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if live.UID != pod.UID || !metav1.IsControlledBy(live, chaperon) || !mustChange(chaperon, live) {
		return reconcile.Result{}, nil // The cache lags, and its event follows.
	}
	rules, err := r.restriction.RulesOf(ctx, chaperon)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the rules for the delegate: %w", err)
	}
	changer := changer{Reconciler: r, rules: rules, live: live}
	err = changer.apply(ctx, translate.DelegateChanges(live, chaperon))
	r.showLostByChange(ctx, chaperon, changer.lost)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if len(changer.refusals) > 0 {
		return r.refuseChange(ctx, chaperon, pod, strings.Join(changer.refusals, "; "))
	}
	r.retries.forget(client.ObjectKeyFromObject(chaperon))
	log.FromContext(ctx).V(1).Info("Changed the delegate", "revision", translate.RevisionOf(chaperon).Number)
	return reconcile.Result{}, nil
}

// changer applies the changes of one delegate. A part that the target refuses does not keep the others back: a label
// that puts a pod into quarantine must not wait for an image.
type changer struct {
	*Reconciler

	rules    []restriction.Rule
	live     *corev1.Pod
	refusals []string
	lost     []string // fields that the target dropped
}

// apply makes a request for each subresource, and one for the rest, which has the revision. If the target refuses the
// rest, its spec and its metadata are tried separately.
func (c *changer) apply(ctx context.Context, changes *translate.Changes) error {
	if err := c.part(ctx, resizeSubresource, changes.Resized, changes.WithoutResize); err != nil {
		return err
	}
	if err := c.debug(ctx, changes); err != nil {
		return err
	}
	if len(changes.Kept) > 0 {
		c.refusals = append(c.refusals, "this cluster gave the delegate other values, which stay: "+
			strings.Join(changes.Kept, ", "))
		changes.WithoutKept()
	}
	if changes.Spec != nil {
		if err := c.patch(ctx, "", changes.Rest()); err == nil || !refusal(err) {
			return err
		}
		if err := c.part(ctx, "", changes.Spec, changes.WithoutSpec); err != nil {
			return err
		}
	}
	return c.part(ctx, "", changes.Metadata, func() {})
}

// debug adds ephemeral containers, after the annotations that carry values of the proxy. A kubelet may start the
// containers at once, and never starts them again. So if the target refuses the annotations, the containers wait.
func (c *changer) debug(ctx context.Context, changes *translate.Changes) error {
	if changes.Debugged == nil {
		return nil
	}
	refused := false
	err := c.part(ctx, "", changes.Carried(), func() { refused = true })
	if err != nil {
		return err
	}
	if refused {
		changes.WithoutDebug()
		return nil
	}
	return c.part(ctx, ephemeralSubresource, changes.Debugged, changes.WithoutDebug)
}

// part makes one part of the changes, if there is one. If the target refuses it, part notes why and calls without.
func (c *changer) part(ctx context.Context, subresource string, wished *corev1.Pod, without func()) error {
	if wished == nil {
		return nil
	}
	err := c.patch(ctx, subresource, wished)
	if err == nil || !refusal(err) {
		return err
	}
	c.refusals = append(c.refusals, apierror.Message(err))
	without()
	return nil
}

// refusal says whether the target refuses a change.
func refusal(err error) bool { return !apierrors.IsNotFound(err) && refusedForGood(err) }

// patch writes the differences to this very delegate. If there are rules for it, a dry run comes first, as when a
// delegate is created: the rules are about the pod that the API server would store. A mutating webhook may treat a dry
// run differently. So a delegate that breaks a rule now is deleted at once.
func (c *changer) patch(ctx context.Context, subresource string, wished *corev1.Pod) error {
	patch, err := c.differences(wished)
	if err != nil {
		return err
	}
	if len(c.rules) > 0 {
		admitted, err := c.send(ctx, subresource, patch, client.DryRunAll)
		if err != nil {
			return err
		}
		if err := c.check(ctx, c.rules, admitted); err != nil {
			return err
		}
	}
	stored, err := c.send(ctx, subresource, patch)
	if err != nil {
		return err
	}
	c.lost = append(c.lost, translate.LostFields(&wished.Spec, &stored.Spec)...)
	if len(c.rules) == 0 {
		return nil
	}
	broken := c.check(ctx, c.rules, stored)
	if broken == nil {
		return nil
	}
	if err := c.deleteObject(ctx, c.live, false, client.GracePeriodSeconds(0)); err != nil {
		return fmt.Errorf("deleting a delegate that may not be (%s): %w", truncate(broken.Error()), err)
	}
	return broken
}

// differences returns the patch that makes the delegate as wished. The UID is a precondition.
func (c *changer) differences(wished *corev1.Pod) (client.Patch, error) {
	before := c.live.DeepCopy()
	before.UID = ""
	data, err := client.StrategicMergeFrom(before).Data(wished)
	if err != nil {
		return nil, fmt.Errorf("comparing the delegate: %w", err)
	}
	return client.RawPatch(types.StrategicMergePatchType, data), nil
}

func (c *changer) send(
	ctx context.Context, subresource string, patch client.Patch, options ...client.PatchOption,
) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.live.Namespace, Name: c.live.Name}}
	options = append(options, client.FieldOwner(v1alpha1.FieldOwner))
	var err error
	if subresource == "" {
		err = c.client.Patch(ctx, pod, patch, options...)
	} else {
		all := &client.SubResourcePatchOptions{}
		all.PatchOptions.ApplyOptions(options)
		err = c.client.SubResource(subresource).Patch(ctx, pod, patch, all)
	}
	if subresource != "" && apierrors.IsNotFound(err) &&
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil, lacks(subresource)
	}
	if err != nil {
		return nil, fmt.Errorf("changing the delegate: %w", err)
	}
	return pod, nil
}

// lacks returns the refusal of a target whose Kubernetes has no such subresource.
func lacks(subresource string) error {
	return apierrors.NewBadRequest(fmt.Sprintf(
		"the Kubernetes of this cluster lacks the subresource %s of pods: upgrade it, or create the pod again",
		subresource))
}

// refuseChange shows that the target refuses a change, and when to try again.
func (r *Reconciler) refuseChange(
	ctx context.Context, chaperon *v1alpha1.PodChaperon, pod *corev1.Pod, message string,
) (reconcile.Result, error) {
	log.FromContext(ctx).Info("A change of the delegate was refused", "message", message)
	status := delegateStatus(chaperon, pod, r.clock.Now())
	if status == nil {
		status = pod.Status.DeepCopy()
	}
	before := changesCondition(&chaperon.Status)
	refused := corev1.PodCondition{
		Type: v1alpha1.ConditionChanges, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonChangesRefused,
		Message: truncate(message), ObservedGeneration: translate.RevisionOf(chaperon).Number,
		LastTransitionTime: metav1.NewTime(r.clock.Now()).Rfc3339Copy(),
	}
	if before != nil && before.Status == refused.Status && before.ObservedGeneration == refused.ObservedGeneration {
		refused.LastTransitionTime = before.LastTransitionTime
	} else {
		r.recordChangeRefused(chaperon, message)
	}
	status.Conditions = withChanges(status.Conditions, refused)
	if _, err := r.writeStatus(ctx, chaperon, status); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: r.retries.later(chaperon, r.clock.Now())}, nil
}

func changesCondition(status *corev1.PodStatus) *corev1.PodCondition {
	return translate.PodCondition(status.Conditions, v1alpha1.ConditionChanges)
}

// withChanges puts the condition where delegateStatus has it, before that of the annotations: another order would be
// another status, and each try would cost two writes.
func withChanges(conditions []corev1.PodCondition, changes corev1.PodCondition) []corev1.PodCondition {
	conditions = withoutChanges(conditions)
	last := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionAnnotations
	})
	if last < 0 {
		last = len(conditions)
	}
	return slices.Insert(conditions, last, changes)
}

func withoutChanges(conditions []corev1.PodCondition) []corev1.PodCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.ConditionChanges
	})
}

// showChanges adds the condition that says which change the delegate has to its status, unless nothing was changed. A
// kubelet that tells which generation it has seen must have seen the change. Until then, the condition of an earlier
// change that was applied stays. Its observedGeneration tells them apart.
func showChanges(chaperon *v1alpha1.PodChaperon, delegate *corev1.Pod, status *corev1.PodStatus, now time.Time) {
	status.Conditions = withoutChanges(status.Conditions)
	if len(status.Conditions) == 0 {
		status.Conditions = nil
	}
	if c := nextChanges(chaperon, delegate, now); c != nil {
		status.Conditions = append(status.Conditions, *c)
	}
}

// nextChanges returns the condition that showChanges shows, or nil.
func nextChanges(chaperon *v1alpha1.PodChaperon, delegate *corev1.Pod, now time.Time) *corev1.PodCondition {
	wished, before := translate.RevisionOf(chaperon).Number, changesCondition(&chaperon.Status)
	has := translate.RevisionOf(delegate).Number >= wished
	seen := delegate.Status.ObservedGeneration == 0 || delegate.Status.ObservedGeneration >= delegate.Generation
	if wished == 0 {
		return nil
	}
	if before == nil {
		before = &corev1.PodCondition{}
	}
	same, applied := before.ObservedGeneration == wished, before.Status == corev1.ConditionTrue
	switch {
	case has && seen && (!same || !applied):
		return &corev1.PodCondition{
			Type: v1alpha1.ConditionChanges, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonChangesApplied,
			ObservedGeneration: wished, LastTransitionTime: metav1.NewTime(now).Rfc3339Copy(),
		}
	case has && seen, !has && same && before.Status == corev1.ConditionFalse:
		return before
	case !same && applied: // To remove it would be a write for each change.
		return before
	}
	return nil
}

// retries remembers when refused changes are tried again. A new leader tries at once.
type retries struct {
	mu    sync.Mutex // guards byKey
	byKey map[types.NamespacedName]retry
}

type retry struct {
	uid    types.UID
	number int64 // of the change
	pause  time.Duration
	at     time.Time
}

// wait returns the time until the change may be tried again, or 0.
func (r *retries) wait(chaperon *v1alpha1.PodChaperon, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, ok := r.byKey[client.ObjectKeyFromObject(chaperon)]
	if !ok || last.uid != chaperon.UID || last.number != translate.RevisionOf(chaperon).Number {
		return 0
	}
	return max(last.at.Sub(now), 0)
}

// later notes that the change was refused, and returns the time until the next try.
func (r *retries) later(chaperon *v1alpha1.PodChaperon, now time.Time) time.Duration {
	next := retry{uid: chaperon.UID, number: translate.RevisionOf(chaperon).Number, pause: firstChangeRetry}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(chaperon)
	if last, ok := r.byKey[key]; ok && last.uid == next.uid && last.number == next.number {
		next.pause = min(2*last.pause, lastChangeRetry)
	}
	next.at = now.Add(next.pause)
	if r.byKey == nil {
		r.byKey = map[types.NamespacedName]retry{}
	}
	r.byKey[key] = next
	return next.pause
}

func (r *retries) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKey, key)
}
