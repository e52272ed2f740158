package feedback

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// unproved returns the PodChaperon of the proxy, which is bound to the target's node, if it lacks the label target-id
// or a valid proof: an earlier version made it, or the key was lost. It also returns one that was withdrawn too late.
// Without keys it returns nil.
func (s *state) unproved(chaperon *v1alpha1.PodChaperon) *v1alpha1.PodChaperon {
	_, withdrawn := chaperon.Annotations[v1alpha1.AnnotationWithdrawn]
	if s.keys == nil || !withdrawn &&
		chaperon.Labels[v1alpha1.LabelTargetID] == translate.TargetID(s.target) &&
		s.keys.Verify(proof.ClaimOf(s.proxy, s.target), chaperon.Annotations[v1alpha1.AnnotationProof]) {
		return nil
	}
	return chaperon
}

// prove gives the PodChaperon of a proxy, which is bound to the target's node, the marks that this version makes, and
// ends a withdrawal. That the proxy is bound there is a fact of the source, which nobody in the target can change.
func (r *reconciler) prove(ctx context.Context, proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) error {
	keys, err := r.options.Keys()
	if err != nil {
		return fmt.Errorf("signing PodChaperon %q: %w", chaperon.Name, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    chaperon.UID,
		"labels": map[string]string{v1alpha1.LabelTargetID: translate.TargetID(r.target.Key)},
		"annotations": map[string]any{
			v1alpha1.AnnotationProof:     keys.Sign(proof.ClaimOf(proxy, r.target.Key)),
			v1alpha1.AnnotationWithdrawn: nil,
		},
	}})
	if err != nil {
		return fmt.Errorf("encoding the proof: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	target := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: chaperon.Namespace, Name: chaperon.Name}}
	err = r.target.Client.Patch(
		ctx,
		target,
		client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(v1alpha1.FieldOwner),
	)
	if err := ignoreGone(err); err != nil {
		return fmt.Errorf("giving PodChaperon %q a proof: %w", chaperon.Name, err)
	}
	return nil
}
