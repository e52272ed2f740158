package writer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Create makes a copy, with the labels and annotations that it has. An object that exists stays as it is, and the API
// server's error says so.
func (w *Writer) Create(ctx context.Context, object *unstructured.Unstructured) error {
	user, err := w.userName(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := w.target.Create(
		ctx,
		withoutNil(w.withMarks(object, user)),
		client.FieldOwner(v1alpha1.FieldOwner),
	); err != nil {
		return fmt.Errorf("creating the copy: %w", err)
	}
	return nil
}
