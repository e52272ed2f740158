package grants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// leftovers knows which users have copies in which namespaces. It watches nothing until somebody asks, because most
// clusters never withdraw a namespace from a source.
type leftovers struct {
	client           metadata.Interface
	secretNamespaces []string
	// changed is called with the namespace of a copy that is gone. It is called with none when all copies are listed,
	// and when problem returns something new.
	changed func(namespace string)

	ask       sync.Once
	asked     chan struct{}
	listed    atomic.Bool
	informers []toolscache.SharedIndexInformer // complete before listed is true

	mu       sync.Mutex // guards problems
	problems map[toolscache.SharedIndexInformer]string
}

func newLeftovers(config *rest.Config, secretNamespaces []string, changed func(string)) (*leftovers, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	if len(secretNamespaces) == 0 {
		secretNamespaces = []string{metav1.NamespaceAll}
	}
	return &leftovers{
		client: client, secretNamespaces: secretNamespaces, changed: changed, asked: make(chan struct{}),
		problems: map[toolscache.SharedIndexInformer]string{},
	}, nil
}

// Start watches copies from the first question on, until ctx ends.
func (l *leftovers) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.asked:
	}
	var synced []toolscache.InformerSynced
	for resource, namespaces := range l.resources() {
		for _, namespace := range namespaces {
			registration, err := l.watch(ctx, resource, namespace)
			if err != nil {
				return fmt.Errorf("watching copies of %s: %w", resource.Resource, err)
			}
			synced = append(synced, registration.HasSynced)
		}
	}
	if toolscache.WaitForCacheSync(ctx.Done(), synced...) {
		l.listed.Store(true)
		l.changed("")
	}
	<-ctx.Done()
	return nil
}

// resources returns the resources that sources copy, and the namespaces in which the manager may list them.
func (l *leftovers) resources() map[schema.GroupVersionResource][]string {
	all, core := []string{metav1.NamespaceAll}, schema.GroupVersion{Version: "v1"}
	return map[schema.GroupVersionResource][]string{
		core.WithResource("configmaps"):                                        all,
		core.WithResource("serviceaccounts"):                                   all,
		core.WithResource("persistentvolumeclaims"):                            all,
		core.WithResource("services"):                                          all,
		core.WithResource("secrets"):                                           l.secretNamespaces,
		{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}: all,
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}:     all,
	}
}

func (l *leftovers) watch(
	ctx context.Context, resource schema.GroupVersionResource, namespace string,
) (toolscache.ResourceEventHandlerRegistration, error) {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	informer := metadatainformer.NewFilteredMetadataInformer(l.client, resource, namespace, 0, indexers,
		func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelParentClusterID }).Informer()
	gone := func(copied *metav1.PartialObjectMetadata) { l.changed(copied.Namespace) }
	registration, err := informer.AddEventHandler(watch.On(nil, gone))
	failed := func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		toolscache.DefaultWatchErrorHandler(ctx, reflector, err)
		l.failed(informer, fmt.Errorf("listing copies of %s: %w", resource.Resource, err))
	}
	err = errors.Join(err, informer.SetTransform(keepUser), informer.SetWatchErrorHandlerWithContext(failed))
	if err != nil {
		return nil, err
	}
	l.informers = append(l.informers, informer)
	go informer.RunWithContext(ctx)
	return registration, nil
}

// keepUser keeps the name of a copy, and the user who made it.
func keepUser(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		Annotations: map[string]string{v1alpha1.AnnotationFollowedBy: whole.Annotations[v1alpha1.AnnotationFollowedBy]},
	}}, nil
}

// failed records why copies are not listed. Once they are, their watch is left to the informer, which tries again.
func (l *leftovers) failed(informer toolscache.SharedIndexInformer, err error) {
	if informer.HasSynced() {
		return
	}
	l.mu.Lock()
	known := l.problems[informer] == err.Error()
	l.problems[informer] = err.Error()
	l.mu.Unlock()
	if !known {
		l.changed("")
	}
}

// problem says why not all copies are listed. It is empty if they are, or if no attempt failed yet.
func (l *leftovers) problem() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var unlisted []string
	for informer, problem := range l.problems {
		if !informer.HasSynced() {
			unlisted = append(unlisted, problem)
		}
	}
	slices.Sort(unlisted)
	if len(unlisted) == 0 {
		return ""
	}
	if more := len(unlisted) - 1; more > 0 {
		return fmt.Sprintf("%s (and %d more problems)", unlisted[0], more)
	}
	return unlisted[0]
}

// use says whether one of the users has copies in a namespace. It reads memory only. If that is not known yet, changed
// is called once it is.
func (l *leftovers) use(namespace string, users []string) use {
	l.ask.Do(func() { close(l.asked) })
	if !l.listed.Load() {
		return unknown
	}
	for _, informer := range l.informers {
		objects, _ := informer.GetIndexer().ByIndex(toolscache.NamespaceIndex, namespace) // The index exists.
		for _, object := range objects {
			copied, ok := object.(*metav1.PartialObjectMetadata)
			if ok && slices.Contains(users, copied.Annotations[v1alpha1.AnnotationFollowedBy]) {
				return used
			}
		}
	}
	return unused
}
