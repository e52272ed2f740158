package garbagecollection

import (
	"context"
	"fmt"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	networkinginformers "k8s.io/client-go/informers/networking/v1"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

type copyQueue = workqueue.TypedRateLimitingInterface[copyKey]

// annotationSecrets is an annotation of Ingresses in the cache. It lists their TLS Secrets.
const annotationSecrets = "tls-secrets"

// watchObjects watches PodChaperons, and then copies: a copy is decided on only when all PodChaperons are counted.
func (r *Remover) watchObjects(ctx context.Context, q copyQueue) error {
	byKind := map[copyKind][]toolscache.SharedIndexInformer{}
	for _, kind := range copyKinds() {
		for _, namespace := range r.namespaces(kind) {
			informer := r.informer(kind, namespace)
			if err := informer.SetTransform(slimmed(kind)); err != nil {
				return fmt.Errorf("preparing the watch of %s: %w", kind.Resource, err)
			}
			byKind[kind] = append(byKind[kind], informer)
			r.stores[kind] = append(r.stores[kind], informer.GetIndexer())
		}
	}
	if err := r.watchChaperons(ctx, q); err != nil {
		return err
	}
	// An informer repeats a watch that the API server refuses. Only kinds that come after Ingresses wait for another.
	go func() {
		for _, kind := range copyKinds() {
			for _, informer := range byKind[kind] {
				if err := r.runInformer(ctx, kind, informer, q); err != nil {
					log.FromContext(ctx).Error(err, "Copies are not watched", "resource", kind.Resource)
				}
			}
		}
	}()
	return nil
}

// runInformer starts the informer. For Ingresses, it waits until their uses are counted.
func (r *Remover) runInformer(
	ctx context.Context, kind copyKind, informer toolscache.SharedIndexInformer, q copyQueue,
) error {
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.copyChanged(q, kind, nil, object) },
		UpdateFunc: func(before, object any) { r.copyChanged(q, kind, before, object) },
		DeleteFunc: func(object any) { r.copyChanged(q, kind, object, nil) },
	})
	if err != nil {
		return fmt.Errorf("adding a handler: %w", err)
	}
	go informer.RunWithContext(ctx)
	if kind == ingresses() {
		toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
	}
	return nil
}

func (r *Remover) copyChanged(q copyQueue, kind copyKind, before, now any) {
	was, _ := watch.Unwrap[*metav1.PartialObjectMetadata](before)
	is, _ := watch.Unwrap[*metav1.PartialObjectMetadata](now)
	r.count(q, usesOfCopy(was), usesOfCopy(is))
	for _, object := range []*metav1.PartialObjectMetadata{was, is} {
		if object == nil {
			continue
		}
		q.Add(copyKey{kind, types.NamespacedName{Namespace: object.Namespace, Name: object.Name}})
		if kind == services() {
			r.enqueueEndpoints(q, object)
		}
	}
}

func (r *Remover) namespaces(kind copyKind) []string {
	if kind.Resource == string(needs.Secrets) {
		return r.options.SecretNamespaces
	}
	return []string{metav1.NamespaceAll}
}

func (r *Remover) informer(kind copyKind, namespace string) toolscache.SharedIndexInformer {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	labelled := func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelParentClusterID }
	if kind == ingresses() {
		return networkinginformers.NewFilteredIngressInformer(r.typed, namespace, 0, indexers, labelled)
	}
	return metadatainformer.NewFilteredMetadataInformer(
		r.client,
		kind.GroupVersionResource,
		namespace,
		0,
		indexers,
		labelled,
	).Informer()
}

func slimmed(kind copyKind) toolscache.TransformFunc {
	if kind == serviceAccounts() {
		return slimAccount
	}
	return slimCopy
}

// slimCopy keeps the metadata of a copy that this package reads, and the names of an Ingress's TLS Secrets.
func slimCopy(object any) (any, error) {
	switch whole := object.(type) {
	case *networkingv1.Ingress:
		kept := slimMeta(&whole.ObjectMeta)
		var names []string
		for _, tls := range whole.Spec.TLS {
			if tls.SecretName != "" && !slices.Contains(names, tls.SecretName) {
				names = append(names, tls.SecretName)
			}
		}
		kept.Annotations[annotationSecrets] = strings.Join(names, ",")
		return kept, nil
	case *metav1.PartialObjectMetadata:
		if _, done := whole.Annotations[annotationSecrets]; done {
			return whole, nil
		}
		return slimMeta(&whole.ObjectMeta), nil
	default:
		return object, nil
	}
}

func slimMeta(whole *metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:         whole.Namespace,
		Name:              whole.Name,
		UID:               whole.UID,
		ResourceVersion:   whole.ResourceVersion,
		DeletionTimestamp: whole.DeletionTimestamp,
		Labels: map[string]string{
			v1alpha1.LabelParentClusterID: whole.Labels[v1alpha1.LabelParentClusterID],
		},
		Annotations: map[string]string{},
	}}
	if service, ok := whole.Labels[discoveryv1.LabelServiceName]; ok {
		kept.Labels[discoveryv1.LabelServiceName] = service
	}
	for _, name := range []string{v1alpha1.AnnotationFollowedBy, v1alpha1.AnnotationGlobal} {
		if value, ok := whole.Annotations[name]; ok {
			kept.Annotations[name] = value
		}
	}
	return kept
}

// watchChaperons counts uses from now on. It returns when the uses of all existing PodChaperons are counted.
func (r *Remover) watchChaperons(ctx context.Context, q copyQueue) error {
	informer, err := r.options.Cache.GetInformer(ctx, &v1alpha1.PodChaperon{})
	if err != nil {
		return fmt.Errorf("getting the informer of PodChaperons: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { r.chaperonChanged(q, nil, object) },
		UpdateFunc: func(before, object any) { r.chaperonChanged(q, before, object) },
		DeleteFunc: func(object any) { r.chaperonChanged(q, object, nil) },
	})
	if err != nil {
		return fmt.Errorf("watching PodChaperons: %w", err)
	}
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("waiting for PodChaperons: %w", context.Cause(ctx))
	}
	return nil
}

func (r *Remover) chaperonChanged(q copyQueue, before, now any) {
	was, _ := watch.Unwrap[*v1alpha1.PodChaperon](before)
	is, _ := watch.Unwrap[*v1alpha1.PodChaperon](now)
	if was == nil || is == nil || !usesTheSame(was, is) {
		r.count(q, usesOfChaperon(was), usesOfChaperon(is))
	}
}

// count counts the uses of an object now in place of its uses before. For copies that nobody uses any more, the grace
// time begins now.
func (r *Remover) count(q copyQueue, before, now []objectUse) {
	for _, ended := range r.uses.replace(before, now) {
		for _, k := range r.copiesUsed(ended) {
			r.forget(k)
			q.Add(k)
		}
	}
}

// usesTheSame says whether two versions of a PodChaperon have the same uses, without reading the spec. Most updates are
// of the status.
func usesTheSame(a, b *v1alpha1.PodChaperon) bool {
	return a.UID == b.UID && a.Generation == b.Generation &&
		a.Labels[v1alpha1.LabelParentClusterID] == b.Labels[v1alpha1.LabelParentClusterID]
}

// copiesUsed returns the copies of a use.
func (r *Remover) copiesUsed(ended objectUse) []copyKey {
	var keys []copyKey
	for _, kind := range copyKinds() {
		switch {
		case kind.referred && kind.Resource == ended.resource:
			keys = append(keys, copyKey{kind, types.NamespacedName{Namespace: ended.namespace, Name: ended.name}})
		case !kind.referred && ended.resource == "":
			keys = append(keys, r.copiesOf(kind, ended.source, ended.namespace)...)
		}
	}
	return keys
}

func (r *Remover) copiesOf(kind copyKind, source, namespace string) []copyKey {
	var keys []copyKey
	for _, store := range r.stores[kind] {
		objects, _ := store.ByIndex(toolscache.NamespaceIndex, namespace) // The index exists.
		for _, object := range objects {
			if object, ok := object.(*metav1.PartialObjectMetadata); ok &&
				object.Labels[v1alpha1.LabelParentClusterID] == source {
				keys = append(keys, copyKey{kind, types.NamespacedName{Namespace: namespace, Name: object.Name}})
			}
		}
	}
	return keys
}
