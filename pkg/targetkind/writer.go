package targetkind

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Writer writes one owner's part of the statuses of ClusterTargets and Targets.
type Writer struct {
	Client client.Client
	// Owner is the field manager. The API server removes fields that the owner wrote before and leaves out now. Fields
	// of other owners stay.
	Owner string
	// Passing are the types of the owner's conditions that it leaves out if there is nothing to say.
	Passing []string
	Clock   clock.PassiveClock
}

// Write writes the owner's part of the target's status, and returns whether it had to: it does not if nothing differs.
// Conditions get the target's generation, and keep the time of their last transition unless their status changes.
func (w Writer) Write(ctx context.Context, target client.Object, part v1alpha1.TargetStatus) (bool, error) {
	current := Status(target)
	conditions := make([]metav1.Condition, len(part.Conditions))
	same := sameFields(part, current)
	for i, condition := range part.Conditions {
		condition.ObservedGeneration = target.GetGeneration()
		condition.LastTransitionTime = metav1.NewTime(w.Clock.Now())
		was := meta.FindStatusCondition(current.Conditions, condition.Type)
		if was != nil && was.Status == condition.Status {
			condition.LastTransitionTime = was.LastTransitionTime
		}
		same = same && was != nil && *was == condition
		conditions[i] = condition
	}
	for _, passing := range w.Passing {
		same = same && (meta.FindStatusCondition(current.Conditions, passing) == nil ||
			meta.FindStatusCondition(conditions, passing) != nil)
	}
	if same {
		return false, nil
	}
	part.Conditions = conditions
	return true, w.apply(ctx, target, part)
}

// sameFields says whether the part has no field of another value, conditions aside.
func sameFields(part, current v1alpha1.TargetStatus) bool {
	return (part.NodeName == "" || part.NodeName == current.NodeName) &&
		(part.KubernetesVersion == "" || part.KubernetesVersion == current.KubernetesVersion) &&
		(part.Epoch == 0 || part.Epoch == current.Epoch && part.EpochOf == current.EpochOf) &&
		(part.ClusterID == "" || part.ClusterID == current.ClusterID) &&
		(part.Fences == nil || *part.Fences == ptr.Deref(current.Fences, false))
}

func (w Writer) apply(ctx context.Context, target client.Object, part v1alpha1.TargetStatus) error {
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&part)
	if err != nil {
		return fmt.Errorf("converting the status of target %q: %w", target.GetName(), err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kindOf(target)))
	object.SetNamespace(target.GetNamespace())
	object.SetName(target.GetName())
	object.SetUID(target.GetUID())

	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if err := w.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(object),
		client.FieldOwner(w.Owner), client.ForceOwnership); err != nil {
		return fmt.Errorf("writing the status of target %q: %w", Name(client.ObjectKeyFromObject(target)), err)
	}
	return nil
}
