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
)

// put makes the copy what it is to be, if it is one.
func (w *Writer) updateWhole(ctx context.Context, object *unstructured.Unstructured) error {
	uid, err := w.uidOfOurs(ctx, object)
	if err != nil {
		return err
	}
	wanted := withoutNil(object)
	wanted.SetUID(uid) // The API server updates no other.
	requestCtx, cancel := context.WithTimeout(ctx, requestTimeout)
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

// guard sees to it that only a copy of ours is written: it returns the UID of one, or none where the target's admission
// policy holds us to our own. Whom the policy does not hold, a cluster's administrator say, may read, and needs to. It
// is asked before each write, as rights and policies change unheard.
func (w *Writer) uidOfOurs(ctx context.Context, object *unstructured.Unstructured) (types.UID, error) {
	answer := w.probe(ctx, object)
	if deniedByPolicy(answer) {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
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

// probe asks to make the same without the mark, which the policy denies those whom it holds. Other policies see no
// difference.
func (w *Writer) probe(ctx context.Context, object *unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	unmarked := withoutNil(object)
	unmarked.SetAnnotations(nil)
	unmarked.SetName("")
	unmarked.SetGenerateName("multicluster-scheduler-probe-")
	return w.target.Create(ctx, unmarked, client.DryRunAll)
}

// deniedByPolicy tells the denials of the ValidatingAdmissionPolicy in our chart, all of which name the annotation that
// it asks for.
func deniedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), v1alpha1.AnnotationFollowedBy)
}
