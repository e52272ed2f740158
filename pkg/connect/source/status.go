package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

// namesShown is the number of namespaces that a message names. It gives the number of the others.
const namesShown = 10

// writeStatus writes the conditions that changed. The outcome is nil for Sources, and if there is a problem.
func (r *reconciler[T]) writeStatus(ctx context.Context, object T, outcome *grants.Outcome, problem error) error {
	before, _ := object.DeepCopyObject().(T)
	conditions := &r.kind.status(object).Conditions
	set := func(condition metav1.Condition) bool {
		condition.ObservedGeneration = object.GetGeneration()
		condition.LastTransitionTime = metav1.NewTime(r.options.Clock.Now())
		return meta.SetStatusCondition(conditions, condition)
	}
	in := where(object.GetNamespace(), outcome)
	if r.unpublished() {
		in += "; " + grants.MissingKind
	}
	changed := set(readyCondition(r.kind.identity(object), in, problem))
	if outcome != nil {
		condition := restrictedCondition(outcome.WouldRefuse)
		warned := set(condition)
		changed = changed || warned
		if warned && condition.Status == metav1.ConditionFalse {
			r.options.Recorder.Eventf(object, nil, corev1.EventTypeWarning, condition.Reason, "Grant", "%s",
				condition.Message)
		}
	}
	if !changed {
		return nil
	}
	patch := client.MergeFrom(before)
	err := r.options.Client.Status().Patch(ctx, object, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of %s %q: %w", r.kind.name, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// where says where a source may act.
func where(namespace string, outcome *grants.Outcome) string {
	if outcome == nil {
		return fmt.Sprintf("namespace %q", namespace)
	}
	text := fmt.Sprintf("%d namespaces", len(outcome.Namespaces))
	if n := len(outcome.Namespaces); n > 0 && n <= namesShown {
		text += " (" + names(outcome.Namespaces) + ")"
	}
	if len(outcome.Leaving) > 0 {
		text += ", and may only end its pods in " + names(outcome.Leaving)
	}
	if outcome.Everywhere {
		text += "; it has its rights in the whole cluster until the manager has found all its objects"
	}
	return text
}

func names(all []string) string {
	if more := len(all) - namesShown; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(all[:namesShown], ", "), more)
	}
	return strings.Join(all, ", ")
}

// readyCondition says what the source may do, or which problem it has.
func readyCondition(i grants.Identity, where string, problem error) metav1.Condition {
	if problem != nil {
		condition := metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonFailed, Message: problem.Error(),
		}
		if errors.As(problem, &grants.InvalidSelectorError{}) {
			condition.Reason = v1alpha1.ReasonInvalidSelector
			condition.Message += ": correct the selector; until then the source keeps the namespaces that it has"
		}
		return condition
	}
	var who []string
	if i.UserName != "" {
		who = append(who, fmt.Sprintf("user %q", i.UserName))
	}
	if i.HasServiceAccount() {
		who = append(who, fmt.Sprintf("service account %q", i.ServiceAccount))
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: fmt.Sprintf("%s may run pods in %s", strings.Join(who, " and "), where),
	}
}

// restrictedCondition names the namespaces that a ClusterSource loses once the default exclusions are enforced.
func restrictedCondition(wouldRefuse []string) metav1.Condition {
	if len(wouldRefuse) == 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionRestricted, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRestricted,
			Message: "the source has rights only in namespaces that are selected, or that it leaves",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionRestricted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWouldRefuse,
		Message: fmt.Sprintf("the next version refuses the source these namespaces, which it used before the upgrade: "+
			"%s. To keep them, label them %s=%s, or name them in spec.namespaceSelector. "+
			"The Helm value sources.enforceDefaultExclusions=true refuses them now",
			names(wouldRefuse), v1alpha1.LabelSources, v1alpha1.LabelSourcesAllowed),
	}
}
