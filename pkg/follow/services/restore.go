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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// applied says whether we own fields of a Service in the source. Its selector is the only field that we apply.
func applied(service *corev1.Service) bool {
	return slices.ContainsFunc(service.ManagedFields, isApplied)
}

func isApplied(entry metav1.ManagedFieldsEntry) bool {
	return entry.Manager == v1alpha1.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationApply
}

// Restore gives a Service of the source the user's own selector back, and gives up our fields. It does nothing to other
// Services, to copies, and to Services whose annotation is not a selector. It is for a cluster that is no source any
// more.
func Restore(ctx context.Context, c client.Client, service *corev1.Service) error {
	if _, copied := service.Annotations[v1alpha1.AnnotationIsDelegate]; copied {
		return nil
	}
	f := &Follower{options: Options{Client: c, APIReader: c}}
	r, err := rewrite(service, false, translate.Source{})
	switch {
	case err != nil, r == nil && !applied(service):
		return nil //nolint:nilerr // see above
	case r == nil:
		return f.readAndRelease(ctx, client.ObjectKeyFromObject(service))
	}
	live, err := f.applySelector(ctx, service, r)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return f.releaseFields(ctx, live)
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

// exists asks the API server whether there is an object that the cache lacks, in an enabled namespace. So a cache that
// is empty, or from another time, costs a target nothing.
func (f *Follower) exists(ctx context.Context, key types.NamespacedName, object client.Object) (bool, error) {
	namespace := &corev1.Namespace{}
	err := f.readLive(ctx, types.NamespacedName{Name: key.Namespace}, namespace)
	if err != nil || namespace.Labels[v1alpha1.LabelEnabledNamespace] != v1alpha1.LabelEnabledNamespaceValue {
		return false, client.IgnoreNotFound(err)
	}
	err = f.readLive(ctx, key, object)
	return err == nil, client.IgnoreNotFound(err)
}

// readLive reads an object from the API server.
func (f *Follower) readLive(ctx context.Context, key types.NamespacedName, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if err := f.options.APIReader.Get(ctx, key, object); err != nil {
		return fmt.Errorf("looking at the original: %w", err)
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
