package writer

import (
	"context"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// testOurs makes a patch fail unless the object is a copy of this source's.
func (w *Writer) testOurs() patch.Operation {
	return patch.Test(patch.Pointer("metadata", "labels", v1alpha1.LabelParentClusterID), w.source.ClusterID)
}

// changes returns operations that first test the label and then set the content. Each copy has annotations, because
// Create and Write add one: see annotate.
func (w *Writer) changes(object *unstructured.Unstructured) []patch.Operation {
	operations := []patch.Operation{w.testOurs()}
	annotations := object.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		operations = append(operations, patch.Add(patch.Pointer("metadata", "annotations", key), annotations[key]))
	}
	for _, name := range slices.Sorted(maps.Keys(object.Object)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			operations = append(operations, patch.Add(patch.Pointer(name), object.Object[name]))
		}
	}
	return operations
}

// patchCopy patches the object if it is a copy of ours. The API server answers Invalid if a test fails, and also if a
// field must not change.
func (w *Writer) patchCopy(ctx context.Context, object *unstructured.Unstructured) error {
	_, refusal := w.sendPatch(ctx, object, w.changes(object)...)
	switch {
	case deniedByPolicy(refusal):
		return notOurs(object)
	case !apierrors.IsInvalid(refusal):
		return refusal
	}
	found, err := w.sendPatch(ctx, object, w.testOurs())
	switch {
	case apierrors.IsInvalid(err):
		return notOurs(object)
	case err != nil:
		return err
	}
	if len(found.GetAnnotations()) == 0 {
		if err := w.annotate(ctx, object, found); !apierrors.IsInvalid(err) {
			return err
		}
	}
	return w.recreate(ctx, object, AsSeen(found), refusal)
}

// annotate patches a copy from which somebody has removed all annotations: no operation adds one then.
func (w *Writer) annotate(ctx context.Context, object, found *unstructured.Unstructured) error {
	unchanged := patch.Test(patch.Pointer("metadata", "resourceVersion"), found.GetResourceVersion())
	none := patch.Add(patch.Pointer("metadata", "annotations"), map[string]any{})
	_, err := w.sendPatch(ctx, object, append([]patch.Operation{unchanged, none}, w.changes(object)...)...)
	return err
}

// sendPatch sends a patch of the copy, and returns the copy.
func (w *Writer) sendPatch(
	ctx context.Context, object *unstructured.Unstructured, operations ...patch.Operation,
) (*unstructured.Unstructured, error) {
	data, err := patch.Encode(operations)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	found := withNameOf(&unstructured.Unstructured{}, object)
	err = w.target.Patch(ctx, found, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil {
		return nil, fmt.Errorf("changing the copy: %w", err)
	}
	return found, nil
}

// withNameOf gives an empty object the kind, namespace and name of another.
func withNameOf[T client.Object](empty T, object *unstructured.Unstructured) T {
	empty.GetObjectKind().SetGroupVersionKind(object.GroupVersionKind())
	empty.SetNamespace(object.GetNamespace())
	empty.SetName(object.GetName())
	return empty
}
