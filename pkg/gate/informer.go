package gate

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	objectwatch "github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// NewInformer returns an informer of objects that pass the gate. It is for cache.Options.NewInformer. The informer
// keeps of PodChaperons what ParentOf reads, and the status. An invalid ClusterSummary does not replace a valid one.
func (g *Gate) NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	passing := g.newFilter(lw)
	informer := cache.NewSharedIndexInformer(passing, example, resync, indexers)
	passing.store = informer.GetIndexer()
	return informer
}

// ListerWatcher returns a ListerWatcher whose lists and watches have only objects that pass the gate. It serves one
// informer or reflector.
func (g *Gate) ListerWatcher(lw cache.ListerWatcher) cache.ListerWatcher { return g.newFilter(lw) }

func (g *Gate) newFilter(lw cache.ListerWatcher) *filter {
	return &filter{
		gate: g, from: cache.ToListerWatcherWithContext(lw),
		listFirst: watchlist.DoesClientNotSupportWatchListSemantics(lw),
		passed:    map[types.NamespacedName]passed{},
	}
}

// filter drops what the gate refuses from lists and watches of one kind.
type filter struct {
	gate *Gate
	from cache.ListerWatcherWithContext
	// listFirst says that the client cannot list by watching.
	listFirst bool
	// store is the informer's, or nil. It has the last valid ClusterSummary.
	store cache.Store

	mu sync.Mutex // guards passed
	// passed has the PodChaperons that have passed and are not deleted.
	passed map[types.NamespacedName]passed
}

// passed is what identifies a PodChaperon that has passed.
type passed struct {
	uid    types.UID
	parent Parent
}

// IsWatchListSemanticsUnSupported says what the client supports.
func (f *filter) IsWatchListSemanticsUnSupported() bool { return f.listFirst }

// List is for the interface: informers call ListWithContext.
func (f *filter) List(options metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.TODO(), options) //nolint:forbidigo // the interface has no context
}

// Watch is for the interface: informers call WatchWithContext.
func (f *filter) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.TODO(), options) //nolint:forbidigo // the interface has no context
}

// ListWithContext lists, page by page, the items that pass. The first list is of the present.
func (f *filter) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	objectwatch.AskForThePresent(&options)
	list, err := f.from.ListWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	if options.Continue == "" {
		f.reset()
	}
	return list, filterItems(list, func(o client.Object) client.Object { return f.admit(ctx, o) })
}

// filterItems replaces each item of a list, and drops those that become nil.
func filterItems(list runtime.Object, admit func(client.Object) client.Object) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	kept := make([]runtime.Object, 0, len(items))
	for _, item := range items {
		if o, ok := item.(client.Object); ok {
			if o = admit(o); o != nil {
				kept = append(kept, o)
			}
		}
	}
	if err := meta.SetList(list, kept); err != nil {
		return fmt.Errorf("filtering a list: %w", err)
	}
	return nil
}

// WatchWithContext watches, and turns what does not pass into bookmarks.
func (f *filter) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := f.from.WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	if options.SendInitialEvents != nil && *options.SendInitialEvents {
		f.reset()
	}
	return filterWatch(w, func(event watch.Event) (watch.Event, bool) { return f.pass(ctx, event) }), nil
}

// pass returns what becomes of an event.
func (f *filter) pass(ctx context.Context, event watch.Event) (watch.Event, bool) {
	switch event.Type {
	case watch.Bookmark, watch.Error:
		return event, true
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return event, false
	}
	o, ok := event.Object.(client.Object)
	if !ok {
		return event, false
	}
	version := o.GetResourceVersion()
	if event.Type != watch.Deleted {
		if admitted := f.admit(ctx, o); admitted != nil {
			return watch.Event{Type: event.Type, Object: admitted}, true
		}
	}
	if gone := f.remove(ctx, o, event.Type); gone != nil {
		gone.SetResourceVersion(version)
		return watch.Event{Type: watch.Deleted, Object: gone}, true
	}
	return watch.Event{Type: watch.Bookmark, Object: bookmark(o, version)}, true
}

// admit returns the object as it may pass, or nil.
func (f *filter) admit(ctx context.Context, o client.Object) client.Object {
	orphan, err := f.gate.decide(ctx, o)
	if err != nil {
		log.FromContext(ctx).V(1).Info("An object of a target does not pass", "reason", err.Error())
		return f.instead(o)
	}
	if chaperon, ok := o.(*v1alpha1.PodChaperon); ok {
		strip(chaperon, orphan)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.passed[client.ObjectKeyFromObject(o)] = passed{chaperon.UID, ParentOf(chaperon)}
	}
	return o
}

// instead returns the object that is to be kept in place of one that does not pass, or nil.
func (f *filter) instead(o client.Object) client.Object {
	if _, ok := o.(*v1alpha1.ClusterSummary); !ok || f.store == nil {
		return nil
	}
	last, exists, err := f.store.GetByKey(v1alpha1.ClusterSummaryName)
	if summary, ok := last.(*v1alpha1.ClusterSummary); ok && exists && err == nil && o.GetName() == summary.Name {
		kept := summary.DeepCopy()
		kept.ResourceVersion = o.GetResourceVersion()
		return kept
	}
	return nil
}

// remove returns the object to be reported as deleted, or nil. A PodChaperon is reported as it was when it passed,
// whatever the target says about it now.
func (f *filter) remove(ctx context.Context, o client.Object, event watch.EventType) client.Object {
	if _, ok := o.(*v1alpha1.PodChaperon); !ok {
		if event == watch.Deleted && f.gate.checkNamespace(o) == nil {
			return o
		}
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	was, ok := f.passed[key]
	if !ok {
		return nil
	}
	delete(f.passed, key)
	if event != watch.Deleted {
		log.FromContext(ctx).Info("A PodChaperon of a target is not accepted any more", "podchaperon", key)
	}
	gone := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: was.uid}}
	gone.Labels, gone.Annotations = marks(was.parent, was.parent.Orphan)
	return gone
}

func (f *filter) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.passed)
}

// bookmark returns an object of the same kind that only says up to where the watch has come.
func bookmark(o client.Object, version string) runtime.Object {
	empty, ok := reflect.New(reflect.TypeOf(o).Elem()).Interface().(client.Object)
	if !ok {
		return o
	}
	empty.GetObjectKind().SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
	empty.SetResourceVersion(version)
	return empty
}
