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

// Patch changes a copy of a kind that the source may read, if it still is this very object and a copy of this source's.
// A copy from which somebody has removed the annotation followed-by gets it back. Without changes, this may be all, or
// nothing. A copy that is gone, or that somebody has changed or recreated since, is no error. The object says its kind.
// Patch returns a *NotOursError if the target's admission policy takes the object for nobody's copy, or the API
// server's error.
func (w *Writer) Patch(ctx context.Context, there client.Object, changes []patch.Operation) error {
	mark, err := w.mark(ctx, there)
	if err != nil || len(mark)+len(changes) == 0 {
		return err
	}
	tests := []patch.Operation{patch.TestUID(there.GetUID()), w.testOurs()}
	data, err := patch.Encode(slices.Concat(tests, mark, changes))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	err = w.target.Patch(ctx, there, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.FieldOwner))
	switch {
	case deniedByPolicy(err):
		return notOurs(there)
	case apierrors.IsInvalid(err):
		return w.unlessChanged(ctx, there, err)
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("changing the copy: %w", err)
	default:
		return nil
	}
}

// unlessChanged returns a refusal if the copy still is as it was seen. API servers answer a failed test, and the
// removal of what is gone, with the same code as a patch whose result is invalid (applyJSPatch in
// k8s.io/apiserver/pkg/endpoints/handlers/patch.go). So a test alone follows.
func (w *Writer) unlessChanged(ctx context.Context, there client.Object, refusal error) error {
	asSeen := patch.Test(patch.Pointer("metadata", "resourceVersion"), there.GetResourceVersion())
	_, err := w.sendPatch(ctx, there, asSeen)
	switch {
	case err == nil:
		return fmt.Errorf("changing the copy: %w", refusal)
	case apierrors.IsInvalid(err), apierrors.IsNotFound(err):
		return nil
	default:
		return err
	}
}

// mark returns the change that gives a copy its annotation back. Without the annotation, the target's manager takes the
// object for nobody's copy, and deletes the endpoints of such a Service.
func (w *Writer) mark(ctx context.Context, there client.Object) ([]patch.Operation, error) {
	annotations := there.GetAnnotations()
	if _, marked := annotations[v1alpha1.AnnotationFollowedBy]; marked {
		return nil, nil
	}
	user, err := w.userName(ctx)
	if err != nil {
		return nil, err
	}
	all := patch.Pointer("metadata", "annotations")
	if len(annotations) > 0 {
		return []patch.Operation{patch.Add(all+patch.Pointer(v1alpha1.AnnotationFollowedBy), user)}, nil
	}
	return []patch.Operation{ // No operation adds to nothing. This one would replace what somebody has added since.
		patch.Test(patch.Pointer("metadata", "resourceVersion"), there.GetResourceVersion()),
		patch.Add(all, map[string]string{v1alpha1.AnnotationFollowedBy: user}),
	}, nil
}

// sendPatch sends a patch of the copy, and returns the copy.
func (w *Writer) sendPatch(
	ctx context.Context, object client.Object, operations ...patch.Operation,
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
func withNameOf[T client.Object](empty T, object client.Object) T {
	empty.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	empty.SetNamespace(object.GetNamespace())
	empty.SetName(object.GetName())
	return empty
}
