package writer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// Create creates a copy with its labels and annotations. It does not change an object that exists: then it returns the
// API server's error.
func (w *Writer) Create(ctx context.Context, object *unstructured.Unstructured) error {
	user, err := w.userName(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
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
