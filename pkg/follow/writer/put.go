package writer

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// updateWhole replaces the object if it is a copy of ours.
func (w *Writer) updateWhole(ctx context.Context, object *unstructured.Unstructured) error {
	only, err := w.onlyOurs(ctx, object)
	if err != nil {
		return err
	}
	wanted := withoutNil(object)
	// The API server updates no object with another UID, or one that somebody has made their own since.
	wanted.SetUID(ptr.Deref(only.UID, ""))
	wanted.SetResourceVersion(ptr.Deref(only.ResourceVersion, ""))
	requestCtx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	switch err := w.target.Update(requestCtx, wanted, client.FieldOwner(v1alpha1.FieldOwner)); {
	case deniedByPolicy(err):
		return notOurs(object)
	case apierrors.IsInvalid(err):
		return w.recreate(ctx, object, only, err)
	case err != nil:
		return fmt.Errorf("changing the copy: %w", err)
	default:
		return nil
	}
}

// onlyOurs makes sure that only a copy of ours is written. It returns the copy as it was read, or nothing if the
// target's admission policy lets us write our own copies only. The policy does not apply to a cluster's administrator,
// for example, who may read and has to. It asks before each write, because nobody announces changes of rights and
// policies.
func (w *Writer) onlyOurs(ctx context.Context, object *unstructured.Unstructured) (metav1.Preconditions, error) {
	var none metav1.Preconditions
	answer := w.probe(ctx, object)
	if deniedByPolicy(answer) {
		return none, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	found := withNameOf(&metav1.PartialObjectMetadata{}, object)
	err := w.reader.Get(ctx, client.ObjectKeyFromObject(object), found)
	switch {
	case apierrors.IsForbidden(err) && answer == nil:
		return none, &UnguardedError{Namespace: object.GetNamespace()}
	case apierrors.IsForbidden(err):
		return none, fmt.Errorf("making sure that only copies are changed: %w", answer)
	case err != nil:
		return none, fmt.Errorf("looking whose it is: %w", err)
	case found.Labels[v1alpha1.LabelParentClusterID] != w.source.ClusterID:
		return none, notOurs(object)
	default:
		return AsSeen(found), nil
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
