package writer

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// updateWhole replaces the object if it is a copy of ours.
func (w *Writer) updateWhole(ctx context.Context, object *unstructured.Unstructured) error {
	uid, err := w.uidOfOurs(ctx, object)
	if err != nil {
		return err
	}
	wanted := withoutNil(object)
	wanted.SetUID(uid) // The API server updates no object with another UID.
	requestCtx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	switch err := w.target.Update(requestCtx, wanted, client.FieldOwner(v1alpha1.FieldOwner)); {
	case deniedByPolicy(err):
		return notOurs(object)
	case apierrors.IsInvalid(err):
		return w.recreate(ctx, object, uid, err)
	case err != nil:
		return fmt.Errorf("changing the copy: %w", err)
	default:
		return nil
	}
}

// uidOfOurs makes sure that only a copy of ours is written. It returns the copy's UID, or none if the target's
// admission policy lets us write our own copies only. The policy does not apply to a cluster's administrator, for
// example, who may read and has to. It asks before each write, because nobody announces changes of rights and policies.
func (w *Writer) uidOfOurs(ctx context.Context, object *unstructured.Unstructured) (types.UID, error) {
	answer := w.probe(ctx, object)
	if deniedByPolicy(answer) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	found := withNameOf(&metav1.PartialObjectMetadata{}, object)
	err := w.reader.Get(ctx, client.ObjectKeyFromObject(object), found)
	switch {
	case apierrors.IsForbidden(err) && answer == nil:
		return "", &UnguardedError{Namespace: object.GetNamespace()}
	case apierrors.IsForbidden(err):
		return "", fmt.Errorf("making sure that only copies are changed: %w", answer)
	case err != nil:
		return "", fmt.Errorf("looking whose it is: %w", err)
	case found.Labels[v1alpha1.LabelParentClusterID] != w.source.ClusterID:
		return "", notOurs(object)
	default:
		return found.UID, nil
	}
}

// probe requests, as a dry run, the creation of the object without the mark. The policy denies this to those to whom it
// applies. To other policies, it is the same request.
func (w *Writer) probe(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	unmarked := withoutNil(object)
	unmarked.SetAnnotations(nil)
	unmarked.SetName("")
	unmarked.SetGenerateName("multicluster-scheduler-probe-")
	return w.target.Create(ctx, unmarked, client.DryRunAll)
}

// deniedByPolicy says whether the ValidatingAdmissionPolicy in our chart denied the request. Its denials name the
// annotation that it requires.
func deniedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), v1alpha1.AnnotationFollowedBy)
}
