package source

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// writeStatus writes the condition Ready if it changed.
func (r *reconciler[T]) writeStatus(ctx context.Context, source T, problem error) error {
	condition := readyCondition(r.kind.identity(source), source.GetNamespace(), problem)
	condition.ObservedGeneration = source.GetGeneration()
	condition.LastTransitionTime = metav1.NewTime(r.options.Clock.Now())

	before, _ := source.DeepCopyObject().(T)
	if !meta.SetStatusCondition(&r.kind.status(source).Conditions, condition) {
		return nil
	}
	patch := client.MergeFrom(before)
	err := r.options.Client.Status().Patch(ctx, source, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of %s %q: %w", r.kind.name, client.ObjectKeyFromObject(source), err)
	}
	return nil
}

// readyCondition says what the source may do, or which problem it has.
func readyCondition(i identity, namespace string, problem error) metav1.Condition {
	if problem != nil {
		return metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse,
			Reason: v1alpha1.ReasonFailed, Message: problem.Error(),
		}
	}
	var who []string
	if i.userName != "" {
		who = append(who, fmt.Sprintf("user %q", i.userName))
	}
	if i.hasServiceAccount() {
		who = append(who, fmt.Sprintf("service account %q", i.serviceAccount))
	}
	where := "every namespace"
	if namespace != "" {
		where = fmt.Sprintf("namespace %q", namespace)
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
		Message: fmt.Sprintf("%s may run pods in %s", strings.Join(who, " and "), where),
	}
}
