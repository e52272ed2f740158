package copies

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

type queue = workqueue.TypedRateLimitingInterface[key]

// watch looks at copies once it knows who needs what.
func (r *Remover) watch(ctx context.Context, q queue) error {
	var informers []toolscache.SharedIndexInformer
	for _, of := range kinds() {
		for _, namespace := range r.namespaces(of) {
			informer, err := r.informer(of, namespace, q)
			if err != nil {
				return fmt.Errorf("watching copies of %s: %w", of.Resource, err)
			}
			informers = append(informers, informer)
			r.stores[of] = append(r.stores[of], informer.GetIndexer())
		}
	}
	if err := r.watchChaperons(ctx, q); err != nil {
		return err
	}
	// A watch that the API server refuses is tried again and again by itself, and keeps nobody waiting.
	for _, informer := range informers {
		go informer.RunWithContext(ctx)
	}
	return nil
}

func (r *Remover) namespaces(of kind) []string {
	if of.Resource == string(needs.Secrets) {
		return r.options.SecretNamespaces
	}
	return []string{metav1.NamespaceAll}
}

func (r *Remover) informer(of kind, namespace string, q queue) (toolscache.SharedIndexInformer, error) {
	informer := metadatainformer.NewFilteredMetadataInformer(r.client, of.GroupVersionResource, namespace, 0,
		toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
		func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelParentClusterID },
	).Informer()
	enqueue := func(object any) {
		if name, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
			q.Add(key{of, name.AsNamespacedName()})
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, object any) { enqueue(object) },
		DeleteFunc: enqueue,
	})
	return informer, errors.Join(err, informer.SetTransform(slim))
}

// slim keeps of a copy's metadata what is read here.
func slim(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:         whole.Namespace,
		Name:              whole.Name,
		UID:               whole.UID,
		ResourceVersion:   whole.ResourceVersion,
		DeletionTimestamp: whole.DeletionTimestamp,
		Labels:            map[string]string{v1alpha1.LabelParentClusterID: whole.Labels[v1alpha1.LabelParentClusterID]},
		Annotations:       map[string]string{},
	}}
	for _, name := range []string{v1alpha1.AnnotationFollowedBy, v1alpha1.AnnotationGlobal} {
		if value, ok := whole.Annotations[name]; ok {
			kept.Annotations[name] = value
		}
	}
	return kept, nil
}

// watchChaperons counts uses from now on, and returns when those of all PodChaperons are counted.
func (r *Remover) watchChaperons(ctx context.Context, q queue) error {
	informer, err := r.options.Cache.GetInformer(ctx, &v1alpha1.PodChaperon{})
	if err != nil {
		return fmt.Errorf("getting the informer of PodChaperons: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.count(q, nil, object) },
		UpdateFunc: func(before, object any) { r.count(q, before, object) },
		DeleteFunc: func(object any) { r.count(q, object, nil) },
	})
	if err != nil {
		return fmt.Errorf("watching PodChaperons: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("waiting for PodChaperons: %w", context.Cause(ctx))
	}
	return nil
}

// count has what is no longer needed looked at. Its time begins now: whether it was seen while it was needed or not.
func (r *Remover) count(q queue, before, now any) {
	if deleted, ok := before.(toolscache.DeletedFinalStateUnknown); ok {
		before = deleted.Obj
	}
	was, _ := before.(*v1alpha1.PodChaperon)
	is, _ := now.(*v1alpha1.PodChaperon)
	if was != nil && is != nil && usesTheSame(was, is) {
		return
	}
	for _, ended := range r.uses.replace(was, is) {
		for _, k := range r.affected(ended) {
			r.forget(k)
			q.Add(k)
		}
	}
}

// usesTheSame spares most updates, which are of the status, a look at the spec.
func usesTheSame(a, b *v1alpha1.PodChaperon) bool {
	return a.UID == b.UID && a.Generation == b.Generation && a.Labels[v1alpha1.LabelParentClusterID] == b.Labels[v1alpha1.LabelParentClusterID]
}

// affected are the copies that were used so.
func (r *Remover) affected(ended use) []key {
	var keys []key
	for _, of := range kinds() {
		switch {
		case of.referred && of.Resource == ended.resource:
			keys = append(keys, key{of, types.NamespacedName{Namespace: ended.namespace, Name: ended.name}})
		case !of.referred && ended.resource == "":
			keys = append(keys, r.copiesOf(of, ended.source, ended.namespace)...)
		}
	}
	return keys
}

func (r *Remover) copiesOf(of kind, source, namespace string) []key {
	var keys []key
	for _, store := range r.stores[of] {
		objects, _ := store.ByIndex(toolscache.NamespaceIndex, namespace) // The index exists.
		for _, object := range objects {
			if object, ok := object.(*metav1.PartialObjectMetadata); ok && object.Labels[v1alpha1.LabelParentClusterID] == source {
				keys = append(keys, key{of, types.NamespacedName{Namespace: namespace, Name: object.Name}})
			}
		}
	}
	return keys
}
