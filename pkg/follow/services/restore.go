package services

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// applied says whether we own fields of a Service in the source. Its selector is the only field that we apply.
func applied(service *corev1.Service) bool {
	return slices.ContainsFunc(service.ManagedFields, isApplied)
}

func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == v1alpha1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply
}

// restoreSelector restores the user's selector in a namespace that is not watched any more.
func (f *Follower) restoreSelector(ctx context.Context, key types.NamespacedName) error {
	if n, _ := f.originals.namespaceOf(key.Namespace); n != nil {
		return nil // The namespace is enabled again.
	}
	service := &corev1.Service{}
	if err := f.readLive(ctx, key, service); err != nil {
		return client.IgnoreNotFound(err)
	}
	r, err := rewrite(service, false, f.options.Source)
	if err != nil {
		f.recordInvalid(service, err)
		return nil
	}
	if r == nil {
		return f.readAndRelease(ctx, key)
	}
	live, err := f.applySelector(ctx, service, r)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	f.forgetSelector(key)
	return f.releaseFields(ctx, live)
}

// readLive reads an object from the API server.
func (f *Follower) readLive(ctx context.Context, key types.NamespacedName, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if err := f.options.APIReader.Get(ctx, key, object); err != nil {
		return fmt.Errorf("looking at the Service: %w", err)
	}
	return nil
}

// readAndRelease gives up our fields of a Service whose selector is the user's again.
func (f *Follower) readAndRelease(ctx context.Context, key types.NamespacedName) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	if err := f.readLive(ctx, key, live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, ok := live.GetAnnotations()[v1alpha1.AnnotationOriginalSelector]; ok ||
		!slices.ContainsFunc(live.GetManagedFields(), isApplied) {
		return nil
	}
	return f.releaseFields(ctx, live)
}

// releaseFields gives up the ownership of our fields: as long as we own the selector, nobody else changes it without a
// conflict. It removes the annotations if the old system wrote them.
func (f *Follower) releaseFields(ctx context.Context, live *unstructured.Unstructured) error {
	entries := slices.DeleteFunc(
		live.GetManagedFields(),
		func(e metav1.ManagedFieldsEntry) bool { return e.Manager == v1alpha1.FieldOwner },
	)
	if len(entries) == 0 {
		entries = []metav1.ManagedFieldsEntry{{}} // The API server ignores an empty list.
	}
	operations := []patch.Operation{
		patch.Test("/metadata/resourceVersion", live.GetResourceVersion()),
		patch.Add("/metadata/managedFields", entries),
	}
	if _, ok := live.GetAnnotations()[v1alpha1.AnnotationOriginalSelector]; ok {
		for _, key := range []string{v1alpha1.AnnotationOriginalSelector, v1alpha1.AnnotationGlobal} {
			if _, ok := live.GetAnnotations()[key]; ok {
				operations = append(operations, patch.Remove(patch.Pointer("metadata", "annotations", key)))
			}
		}
	}
	data, err := patch.Encode(operations)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	raw := client.RawPatch(types.JSONPatchType, data)
	err = f.options.Client.Patch(ctx, live, raw, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("giving up the ownership of the selector: %w", err)
	}
	return nil
}
