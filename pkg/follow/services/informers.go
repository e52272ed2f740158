package services

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// item is a unit of work: a Service with everything that belongs to it, or an Ingress.
type item struct {
	kind itemKind
	types.NamespacedName
}

type itemKind string

const (
	kindService itemKind = "Service"
	kindIngress itemKind = "Ingress"
	// kindRestore is a Service whose namespace was disabled while its selector was rewritten.
	kindRestore itemKind = "Service of a disabled namespace"
	// kindSearch is a namespace of a target that may have copies from earlier times. It has no name.
	kindSearch itemKind = "namespace to search"
	// kindForget is a namespace of a target that perhaps need not be watched any more. It has no name.
	kindForget itemKind = "namespace to forget"
)

// itemOf returns the item of an object. An EndpointSlice or ServiceExport belongs to its Service.
func itemOf(object any) (item, bool) {
	switch o := object.(type) {
	case *corev1.Service:
		return item{kindService, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}, true
	case *discoveryv1.EndpointSlice:
		name := o.Labels[discoveryv1.LabelServiceName]
		return item{kindService, types.NamespacedName{Namespace: o.Namespace, Name: name}}, name != ""
	case *networkingv1.Ingress:
		return item{kindIngress, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}, true
	case *metav1.PartialObjectMetadata: // a ServiceExport
		return item{kindService, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}, true
	}
	return item{}, false
}

// onEach returns a handler that calls changed with the item of each event.
func onEach(changed func(item)) toolscache.ResourceEventHandlerFuncs {
	return watch.OnAny(func(object any) {
		if i, ok := itemOf(object); ok {
			changed(i)
		}
	})
}

// prepareInformer prepares an informer that does not run yet.
func prepareInformer(
	informer toolscache.SharedIndexInformer,
	handler toolscache.ResourceEventHandler,
	transform toolscache.TransformFunc,
	troubled func(error),
) (toolscache.ResourceEventHandlerRegistration, error) {
	failed := func(_ context.Context, _ *toolscache.Reflector, err error) { troubled(err) }
	if err := errors.Join(
		informer.SetTransform(transform),
		informer.SetWatchErrorHandlerWithContext(failed),
	); err != nil {
		return nil, err
	}
	return informer.AddEventHandler(handler)
}

func serviceOf(object any) ([]string, error) {
	if i, ok := itemOf(object); ok {
		return []string{i.String()}, nil
	}
	return nil, nil
}

// withoutManagers is a transform that drops the managed fields.
func withoutManagers(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(nil)
	}
	return object, nil
}

// withOurs is a transform that drops the managed fields of others. It keeps the entry of whoever wrote the annotation
// global.
func withOurs(object any) (any, error) {
	if o, err := meta.Accessor(object); err == nil {
		o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != v1alpha1.FieldOwner && !owns(entry, v1alpha1.AnnotationGlobal)
		}))
	}
	return object, nil
}

// owns says whether an entry of the managed fields contains a label or annotation.
func owns(entry metav1.ManagedFieldsEntry, key string) bool {
	return entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+key+`"`)
}

// cached returns an object of an informer. It must not be changed.
func cached[T any](informer toolscache.SharedIndexInformer, key types.NamespacedName) (T, bool) {
	var none T
	object, ok, err := informer.GetIndexer().GetByKey(strings.TrimPrefix(key.String(), "/"))
	if err != nil || !ok {
		return none, false
	}
	found, ok := object.(T)
	return found, ok
}

// cachedByIndex returns the objects of an informer that have a value in an index, sorted by name. They must not be
// changed.
func cachedByIndex[T metav1.Object](informer toolscache.SharedIndexInformer, index, value string) []T {
	objects, err := informer.GetIndexer().ByIndex(index, value)
	if err != nil {
		return nil // The index does not exist.
	}
	var found []T
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found
}

// itemsIn returns the items of the objects in a namespace. An empty name stands for all namespaces.
func itemsIn(informer toolscache.SharedIndexInformer, namespace string) []item {
	var items []item
	for _, object := range informer.GetStore().List() {
		if i, ok := itemOf(object); ok && (namespace == "" || namespace == i.Namespace) {
			items = append(items, i)
		}
	}
	return items
}
