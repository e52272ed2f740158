package objects

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// revision is the entry that is kept of an object in the source.
type revision struct {
	version string
	// followed says whether the object goes to targets: a ServiceAccount does only if its owner asks for that.
	followed bool
}

// collectionWatch knows which objects of a collection exist in the source, and their versions.
type collectionWatch struct {
	*watch.Store[*metav1.PartialObjectMetadata, revision]

	collection collection
	stop       context.CancelFunc
}

// newCollectionWatch makes a watch. It calls changed when an object is new or has a new version. Objects of the first
// list do not count as new. It calls failed when it fails for the first time, and again after it worked.
func newCollectionWatch(c collection, changed func(o objectKey, appeared bool), failed func(error)) *collectionWatch {
	w := &collectionWatch{collection: c}
	report := func(name string, appeared bool) {
		changed(objectKey{c.namespace, needs.Ref{Resource: c.resource, Name: name}}, appeared)
	}
	w.Store = watch.NewStore(watch.StoreOptions[*metav1.PartialObjectMetadata, revision]{
		EntryOf:   c.revisionOf,
		Transform: withoutContent,
		Changed: func(name string, before, after *revision) {
			if after != nil { // The copies of an object that is gone stay.
				report(name, before == nil)
			}
		},
		Listed: func(before map[string]revision) {
			for name, after := range w.Entries() {
				if was, existed := before[name]; was != after {
					report(name, before != nil && !existed)
				}
			}
		},
		Failed: func(err error) { failed(c.watchError(err)) },
	})
	return w
}

// waitUntilKnown waits until the objects are listed, and returns the first error.
func (w *collectionWatch) waitUntilKnown(ctx context.Context) error {
	if err := w.Wait(ctx); err != nil {
		return w.collection.watchError(err)
	}
	return nil
}

func (c collection) watchError(err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return fmt.Errorf(
			"this cluster's manager must have the rights to get, list and watch %s in namespace %q: %w",
			c.resource,
			c.namespace,
			err,
		)
	}
	return fmt.Errorf("watching %s in namespace %q: %w", c.resource, c.namespace, err)
}

// metadataOf lists and watches the metadata of the objects of a collection.
func metadataOf(c collection, client metadata.Interface) toolscache.ListerWatcher {
	objects := client.Resource(resourceOf(c.resource)).Namespace(c.namespace)
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return objects.Watch(ctx, options)
		},
	}, client)
}

// withoutContent is a transform that keeps what revisionOf reads.
func withoutContent(o any) (any, error) {
	if meta, ok := o.(*metav1.PartialObjectMetadata); ok {
		annotations := meta.Annotations
		meta.ObjectMeta = metav1.ObjectMeta{
			Namespace:       meta.Namespace,
			Name:            meta.Name,
			ResourceVersion: meta.ResourceVersion,
		}
		if value, ok := annotations[v1alpha1.AnnotationFollow]; ok {
			meta.Annotations = map[string]string{v1alpha1.AnnotationFollow: value}
		}
	}
	return o, nil
}

func (c collection) revisionOf(meta *metav1.PartialObjectMetadata) revision {
	_, asked := meta.Annotations[v1alpha1.AnnotationFollow]
	return revision{version: meta.ResourceVersion, followed: asked || c.resource != needs.ServiceAccounts}
}
