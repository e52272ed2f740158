package objects

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// entry is what is kept of an object in the source.
type entry struct {
	version string
	// followed says whether it goes to targets: a ServiceAccount does only where its owner asks for that.
	followed bool
}

// watch knows which objects of a collection exist in the source, and their versions. It is the store of a client-go
// reflector.
type watch struct {
	collection
	// changed is called when there is a new version of an object, or a new object, which is only told once the watch
	// has synced.
	changed func(o object, appeared bool)
	// troubled is called when the watch fails for the first time, and again after it worked.
	troubled func(error)
	stop     context.CancelFunc
	synced   chan struct{} // closed when everything was listed
	failed   chan struct{} // closed when the watch failed or ended

	mu    sync.RWMutex // guards known and err
	known map[string]entry
	err   error // of the last attempt
}

func newWatch(c collection, changed func(object, bool), troubled func(error)) *watch {
	return &watch{
		collection: c,
		changed:    changed,
		troubled:   troubled,
		synced:     make(chan struct{}),
		failed:     make(chan struct{}),
		known:      map[string]entry{},
	}
}

// run lists and watches until ctx ends. Metadata is all that comes.
func (w *watch) run(ctx context.Context, client metadata.Interface, c clock.Clock) {
	objects := client.Resource(resourceOf(w.resource)).Namespace(w.namespace)
	reflector := toolscache.NewReflectorWithOptions(
		toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return objects.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
				return objects.Watch(ctx, options)
			},
		}, client),
		&metav1.PartialObjectMetadata{},
		w,
		toolscache.ReflectorOptions{Name: "follow"},
	)
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 6, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(c, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil && ctx.Err() == nil {
			w.fail(err)
		}
		return false, nil
	})
	w.note(fmt.Errorf("watching %s in namespace %q has ended", w.resource, w.namespace))
}

// wait until everything was listed. It fails as soon as that did.
func (w *watch) wait(ctx context.Context) error {
	select {
	case <-w.synced:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("listing %s in namespace %q: %w", w.resource, w.namespace, ctx.Err())
	case <-w.failed:
	}
	if w.isSynced() {
		return nil // It may be out of date. Contents are not.
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.err
}

// isSynced says whether everything was listed.
func (w *watch) isSynced() bool {
	select {
	case <-w.synced:
		return true
	default:
		return false
	}
}

func (w *watch) get(name string) (entry, bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	e, ok := w.known[name]
	return e, ok
}

// lacks says whether an object surely does not exist. A watch that fails does not know.
func (w *watch) lacks(name string) bool {
	if !w.isSynced() {
		return false
	}
	w.mu.RLock()
	defer w.mu.RUnlock()
	_, exists := w.known[name]
	return !exists && w.err == nil
}

func (w *watch) fail(err error) {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		err = fmt.Errorf(
			"this cluster's manager must have the rights to get, list and watch %s in namespace %q: %w",
			w.resource,
			w.namespace,
			err,
		)
	} else {
		err = fmt.Errorf("watching %s in namespace %q: %w", w.resource, w.namespace, err)
	}
	if w.note(err) {
		w.troubled(err)
	}
}

// note an error for those who wait, and return whether it is the first since the watch worked.
func (w *watch) note(err error) (first bool) {
	w.mu.Lock()
	first = w.err == nil
	w.err = err
	w.mu.Unlock()
	select {
	case <-w.failed:
	default:
		close(w.failed) // One goroutine gets here.
	}
	return first
}

// Add is called by the reflector, and so are the following.
func (w *watch) Add(o any) error { return w.Update(o) }

// Update notes a version.
func (w *watch) Update(o any) error {
	meta, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return errors.New("not metadata")
	}
	w.mu.Lock()
	before, existed := w.known[meta.Name]
	after := w.entryOf(meta)
	w.known[meta.Name] = after
	w.err = nil
	w.mu.Unlock()
	if before != after {
		w.changed(w.object(meta.Name), !existed)
	}
	return nil
}

// Delete forgets an object. Its copies stay.
func (w *watch) Delete(o any) error {
	meta, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return errors.New("not metadata")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, meta.Name)
	return nil
}

// Replace notes what exists, and nothing else.
func (w *watch) Replace(list []any, _ string) error {
	known := make(map[string]entry, len(list))
	for _, o := range list {
		meta, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return errors.New("not metadata")
		}
		known[meta.Name] = w.entryOf(meta)
	}
	w.mu.Lock()
	before := w.known
	w.known, w.err = known, nil
	w.mu.Unlock()
	synced := w.isSynced()
	if !synced {
		close(w.synced)
	}
	for name, after := range known {
		if was, existed := before[name]; was != after {
			w.changed(w.object(name), synced && !existed)
		}
	}
	return nil
}

// Resync has nothing to do.
func (w *watch) Resync() error { return nil }

// Transformer drops most of what the reflector gathers before it calls Replace.
func (w *watch) Transformer() toolscache.TransformFunc {
	return func(o any) (any, error) {
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
}

func (w *watch) object(name string) object {
	return object{w.namespace, needs.Ref{Resource: w.resource, Name: name}}
}

func (w *watch) entryOf(meta *metav1.PartialObjectMetadata) entry {
	_, asked := meta.Annotations[v1alpha1.AnnotationFollow]
	return entry{version: meta.ResourceVersion, followed: asked || w.resource != needs.ServiceAccounts}
}
