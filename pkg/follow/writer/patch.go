package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

type patch []operation

func (p patch) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return data, nil
}

// test succeeds where the object is a copy of this source's.
func (w *Writer) test() patch {
	return patch{{"test", "/metadata/labels/" + escape(v1alpha1.LabelParentClusterID), w.source.ClusterID}}
}

// changes test and set. That a copy has annotations is sure: we made it with one.
func (w *Writer) changes(object *unstructured.Unstructured) patch {
	p := w.test()
	annotations := object.GetAnnotations()
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		p = append(p, operation{"add", "/metadata/annotations/" + escape(key), annotations[key]})
	}
	for _, name := range slices.Sorted(maps.Keys(object.Object)) {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			p = append(p, operation{"add", "/" + escape(name), object.Object[name]})
		}
	}
	return p
}

// change patches the copy, if it is one. The API server says that a patch is invalid both where a test fails and where
// a field must not change.
func (w *Writer) change(ctx context.Context, object *unstructured.Unstructured) error {
	_, refusal := w.patch(ctx, object, w.changes(object))
	switch {
	case deniedByPolicy(refusal):
		return notOurs(object)
	case !apierrors.IsInvalid(refusal):
		return refusal
	}
	uid, err := w.patch(ctx, object, w.test())
	switch {
	case apierrors.IsInvalid(err):
		return notOurs(object)
	case err != nil:
		return err
	}
	return w.replace(ctx, object, uid, refusal)
}

// patch returns the copy's UID.
func (w *Writer) patch(ctx context.Context, object *unstructured.Unstructured, operations patch) (types.UID, error) {
	data, err := operations.encode()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found := named(&unstructured.Unstructured{}, object)
	err = w.target.Patch(ctx, found, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil {
		return "", fmt.Errorf("changing the copy: %w", err)
	}
	return found.GetUID(), nil
}

// named makes an empty object one of the kind, namespace and name of another.
func named[T client.Object](empty T, object *unstructured.Unstructured) T {
	empty.GetObjectKind().SetGroupVersionKind(object.GroupVersionKind())
	empty.SetNamespace(object.GetNamespace())
	empty.SetName(object.GetName())
	return empty
}

// escape a reference token of a JSON pointer (RFC 6901).
func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
