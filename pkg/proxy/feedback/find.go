package feedback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// findChaperon asks the target's API server for the PodChaperon of a proxy that the cache does not show. One that has
// lost the labels by which the cache selects gets them back, and then appears in the cache. An event says if something
// is in the way.
func (r *reconciler) findChaperon(ctx context.Context, proxy *corev1.Pod) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	chaperon := &metav1.PartialObjectMetadata{}
	chaperon.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodChaperon"))
	key := types.NamespacedName{Namespace: proxy.Namespace, Name: translate.DelegateName(proxy)}
	switch err := r.target.APIReader.Get(ctx, key, chaperon); {
	case apierrors.IsNotFound(err):
		return false, nil
	case errors.As(err, new(*gate.ForgedError)):
		r.feedback.recordDelegateUnclear(proxy, err.Error())
		return false, fmt.Errorf("looking for the PodChaperon: %w", err)
	case err != nil:
		return false, fmt.Errorf("looking for the PodChaperon: %w", err)
	}
	selected := map[string]string{
		v1alpha1.LabelParentClusterID: r.options.Source.ClusterID, v1alpha1.LabelTargetHash: r.target.Hash,
	}
	for label, value := range selected {
		if chaperon.Labels[label] != value {
			selected[v1alpha1.LabelTargetID] = translate.TargetID(r.target.Key)
			return true, r.label(ctx, proxy, chaperon, selected)
		}
	}
	return true, nil // The cache lags.
}

// label gives a PodChaperon its labels.
func (r *reconciler) label(
	ctx context.Context, proxy *corev1.Pod, chaperon *metav1.PartialObjectMetadata, labels map[string]string,
) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": chaperon.UID, "labels": labels}})
	if err != nil {
		return fmt.Errorf("encoding labels: %w", err)
	}
	target := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: chaperon.Namespace, Name: chaperon.Name}}
	err = r.target.Client.Patch(
		ctx,
		target,
		client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(v1alpha1.FieldOwner),
	)
	if err := ignoreGone(err); err != nil {
		r.feedback.recordDelegateUnclear(
			proxy,
			fmt.Sprintf("the PodChaperon %q in the target has not our labels %s and "+
				"%s any more, and cannot get them back: %v", chaperon.Name,
				v1alpha1.LabelParentClusterID, v1alpha1.LabelTargetHash, err),
		)
		return fmt.Errorf("labelling PodChaperon %q: %w", chaperon.Name, err)
	}
	r.feedback.recordDelegateLabelled(proxy, chaperon.Name)
	return nil
}
