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
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// copies knows which users have copies of some kinds in which namespaces. It watches nothing until somebody asks.
type copies struct {
	client metadata.Interface
	// watched are the resources, and the namespaces in which the manager may list them.
	watched map[schema.GroupVersionResource][]string

	ask       sync.Once
	asked     chan struct{}
	listed    atomic.Bool
	informers []toolscache.SharedIndexInformer // complete before listed is true

	mu       sync.Mutex // guards the fields below
	problems map[toolscache.SharedIndexInformer]string
	changed  []func(change)
}

// change is a copy that comes or goes. Without a user, all copies are listed now, or problem returns something new.
type change struct {
	namespace, user string
	gone            bool
}

func newCopies(config *rest.Config, watched map[schema.GroupVersionResource][]string) (*copies, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of metadata: %w", err)
	}
	return &copies{
		client: client, watched: watched, asked: make(chan struct{}),
		problems: map[toolscache.SharedIndexInformer]string{},
	}, nil
}

// readable are the copies that their source may read. It learns from its SourceGrant where they are.
func readable() map[schema.GroupVersionResource][]string {
	all, core := []string{metav1.NamespaceAll}, schema.GroupVersion{Version: "v1"}
	return map[schema.GroupVersionResource][]string{
		core.WithResource("persistentvolumeclaims"):                            all,
		core.WithResource("services"):                                          all,
		{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}: all,
		{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}:     all,
	}
}

// others are the other copies. They matter when a source leaves a namespace, which is rare in most clusters. A
// ServiceAccount may stay for ever, and for what was added to it here. So it does not count.
func others(secretNamespaces []string) map[schema.GroupVersionResource][]string {
	all, core := []string{metav1.NamespaceAll}, schema.GroupVersion{Version: "v1"}
	if len(secretNamespaces) == 0 {
		secretNamespaces = all
	}
	return map[schema.GroupVersionResource][]string{
		core.WithResource("configmaps"): all,
		core.WithResource("secrets"):    secretNamespaces,
	}
}

// onChange has f called with each change. It is called before the manager starts, or by a part that starts.
func (l *copies) onChange(f func(change)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = append(l.changed, f)
}

func (l *copies) report(c change) {
	l.mu.Lock()
	all := slices.Clone(l.changed)
	l.mu.Unlock()
	for _, f := range all {
		f(c)
	}
}

// Start watches copies from the first question on, until ctx ends.
func (l *copies) Start(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-l.asked:
	}
	var synced []toolscache.InformerSynced
	for resource, namespaces := range l.watched {
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
		l.report(change{})
	}
	<-ctx.Done()
	return nil
}

func (l *copies) watch(
	ctx context.Context, resource schema.GroupVersionResource, namespace string,
) (toolscache.ResourceEventHandlerRegistration, error) {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	informer := metadatainformer.NewFilteredMetadataInformer(l.client, resource, namespace, 0, indexers,
		func(options *metav1.ListOptions) { options.LabelSelector = v1alpha1.LabelParentClusterID }).Informer()
	reports := func(gone bool) func(*metav1.PartialObjectMetadata) {
		return func(copied *metav1.PartialObjectMetadata) {
			if user := copied.Annotations[v1alpha1.AnnotationFollowedBy]; user != "" {
				l.report(change{copied.Namespace, user, gone})
			}
		}
	}
	registration, err := informer.AddEventHandler(watch.On(reports(false), reports(true)))
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
func (l *copies) failed(informer toolscache.SharedIndexInformer, err error) {
	if informer.HasSynced() {
		return
	}
	l.mu.Lock()
	known := l.problems[informer] == err.Error()
	l.problems[informer] = err.Error()
	l.mu.Unlock()
	if !known {
		l.report(change{})
	}
}

// problem says why not all copies are listed. It is empty if they are, or if no attempt failed yet.
func (l *copies) problem() string {
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

// isListed says whether all copies are known, and begins to watch them. If it returns false, a change follows when it
// would return true.
func (l *copies) isListed() bool {
	l.ask.Do(func() { close(l.asked) })
	return l.listed.Load()
}

// use says whether one of the users has copies in a namespace. It reads memory only.
func (l *copies) use(namespace string, users []string) use {
	if !l.isListed() {
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

// namespacesOf returns the namespaces in which a user has copies. It reads memory only.
func (l *copies) namespacesOf(user string) sets.Set[string] {
	found := sets.New[string]()
	for _, informer := range l.informers {
		for _, object := range informer.GetStore().List() {
			copied, ok := object.(*metav1.PartialObjectMetadata)
			if ok && copied.Annotations[v1alpha1.AnnotationFollowedBy] == user {
				found.Insert(copied.Namespace)
			}
		}
	}
	return found
}
