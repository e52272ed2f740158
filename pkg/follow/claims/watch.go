package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errUnknown says that the list was not answered yet.
var errUnknown = errors.New("not known yet")

// watch knows something, E, of each object of a kind, in a namespace or in the whole cluster. It is the store of a
// client-go reflector, which keeps nothing else.
type watch[T client.Object, E comparable] struct {
	entryOf func(T) E
	// listed is called when everything is known, and changed when E of an object is another, or there is none any more.
	listed  func()
	changed func(name string)

	mu    sync.RWMutex // guards known and err
	known map[string]E // nil until everything was listed
	err   error        // why not
}

// run lists and watches until ctx ends.
func (w *watch[T, E]) run(ctx context.Context, c clock.Clock, lw toolscache.ListerWatcher) {
	var kind T
	reflector := toolscache.NewReflectorWithOptions(lw, kind, w, toolscache.ReflectorOptions{Name: "claims", Clock: c})
	backoff := wait.Backoff{Duration: 800 * time.Millisecond, Cap: 30 * time.Second, Steps: 6, Factor: 2, Jitter: 1}
	_ = backoff.DelayWithReset(c, 2*time.Minute).Until(ctx, true, true, func(ctx context.Context) (bool, error) {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			w.mu.Lock()
			w.err = err
			w.mu.Unlock()
		}
		return false, nil
	})
}

// objectsOf lists and watches what is in a list, in a namespace or, where that is empty, in the whole cluster.
func objectsOf(c client.WithWatch, list client.ObjectList, namespace string) toolscache.ListerWatcher {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			answer, ok := list.DeepCopyObject().(client.ObjectList)
			if !ok {
				return nil, fmt.Errorf("%T is no list", list)
			}
			return answer, c.List(ctx, answer, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			return c.Watch(ctx, list, client.InNamespace(namespace), &client.ListOptions{Raw: &options})
		},
	}
}

// why returns nil if everything is known. What is known may be old: then the next list is under way.
func (w *watch[T, E]) why() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	switch {
	case w.known != nil:
		return nil
	case w.err != nil:
		return w.err
	default:
		return errUnknown
	}
}

// get returns nil where there is none.
func (w *watch[T, E]) get(name string) *E {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if e, ok := w.known[name]; ok {
		return &e
	}
	return nil
}

// all returns what is known.
func (w *watch[T, E]) all() map[string]E {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return maps.Clone(w.known)
}

// Add is called by the reflector, and so are the following.
func (w *watch[T, E]) Add(o any) error { return w.Update(o) }

// Update notes an object.
func (w *watch[T, E]) Update(o any) error {
	object, ok := o.(T)
	if !ok {
		return fmt.Errorf("unexpected %T", o)
	}
	name, after := object.GetName(), w.entryOf(object)
	w.mu.Lock()
	before, existed := w.known[name]
	w.known[name] = after
	w.mu.Unlock()
	if !existed || before != after {
		w.changed(name)
	}
	return nil
}

// Delete forgets an object.
func (w *watch[T, E]) Delete(o any) error {
	object, ok := o.(T)
	if !ok {
		return fmt.Errorf("unexpected %T", o)
	}
	w.mu.Lock()
	delete(w.known, object.GetName())
	w.mu.Unlock()
	w.changed(object.GetName())
	return nil
}

// Replace notes what exists, and nothing else.
func (w *watch[T, E]) Replace(objects []any, _ string) error {
	known := make(map[string]E, len(objects))
	for _, o := range objects {
		object, ok := o.(T)
		if !ok {
			return fmt.Errorf("unexpected %T", o)
		}
		known[object.GetName()] = w.entryOf(object)
	}
	w.mu.Lock()
	w.known, w.err = known, nil
	w.mu.Unlock()
	w.listed()
	return nil
}

// Resync has nothing to do.
func (w *watch[T, E]) Resync() error { return nil }
