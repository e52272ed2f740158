package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// object is an object as JSON, with its metadata. It never changes.
type object struct {
	metav1.PartialObjectMetadata
	json json.RawMessage
}

func read(raw json.RawMessage) (*object, error) {
	o := &object{json: raw}
	if err := json.Unmarshal(raw, &o.PartialObjectMetadata); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	return o, nil
}

// change is what a write did to an object.
type change struct {
	what    watch.EventType
	object  *object
	version int
}

// store is the objects of one simulated target. It is safe for concurrent use.
type store struct {
	mu       sync.Mutex // guards the fields below
	version  int
	objects  map[string]map[types.NamespacedName]*object // by resource
	gone     map[string][]change
	watchers map[*watcher]bool
}

func newStore() *store {
	return &store{
		version: 1, objects: map[string]map[types.NamespacedName]*object{}, gone: map[string][]change{},
		watchers: map[*watcher]bool{},
	}
}

func (s *store) get(resource string, key types.NamespacedName) *object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[resource][key]
}

// put stores an object in place of the one that was seen, which is nil for a new one. It returns what is stored, or nil
// if another object is there. An object that is stored as it is keeps its resource version.
func (s *store) put(resource string, seen *object, content map[string]any) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: content}
	key := types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}
	if s.objects[resource][key] != seen {
		return nil, nil
	}
	what := watch.Modified
	if seen == nil {
		what = watch.Added
		if u.GetUID() == "" {
			u.SetUID(types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", s.version)))
		}
	}
	s.version++
	u.SetResourceVersion(strconv.Itoa(s.version))
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	o, err := read(raw)
	if err != nil {
		return nil, err
	}
	if s.objects[resource] == nil {
		s.objects[resource] = map[types.NamespacedName]*object{}
	}
	s.objects[resource][key] = o
	s.publish(resource, change{what, o, s.version})
	return o, nil
}

// remove removes the object that was seen, and returns false if another one is there.
func (s *store) remove(resource string, seen *object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := types.NamespacedName{Namespace: seen.Namespace, Name: seen.Name}
	if s.objects[resource][key] != seen {
		return false
	}
	delete(s.objects[resource], key)
	s.version++
	last := change{watch.Deleted, seen, s.version}
	s.gone[resource] = append(s.gone[resource], last)
	s.publish(resource, last)
	return true
}

func (s *store) publish(resource string, c change) {
	for w := range s.watchers {
		if w.resource == resource && w.selects(c.object) {
			w.add(c)
		}
	}
}

// count adds the numbers of objects by resource.
func (s *store) count(to map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for resource, objects := range s.objects {
		to[resource] += len(objects)
	}
}

// selector says which objects of a resource a request is about.
type selector struct {
	resource, namespace string
	labels              labels.Selector
	fields              fields.Selector
}

func (s selector) selects(o *object) bool {
	return (s.namespace == "" || s.namespace == o.Namespace) && s.labels.Matches(labels.Set(o.Labels)) &&
		s.fields.Matches(fields.Set{"metadata.name": o.Name, "metadata.namespace": o.Namespace})
}

// list returns the selected objects by name, and the version of the list.
func (s *store) list(of selector) ([]*object, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.selected(of), s.version
}

// selected must be called with the lock held.
func (s *store) selected(of selector) []*object {
	return slices.SortedFunc(
		func(yield func(*object) bool) {
			for o := range maps.Values(s.objects[of.resource]) {
				if of.selects(o) && !yield(o) {
					return
				}
			}
		},
		func(a, b *object) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) },
	)
}

// watcher collects the changes of the selected objects, until somebody takes them.
type watcher struct {
	selector
	news chan struct{} // has room for one

	mu      sync.Mutex // guards the field below
	changes []change
}

// watch returns a watcher of the changes since a version, and the version of the store. The caller ends it.
func (s *store) watch(of selector, since int) (*watcher, int) {
	w := &watcher{selector: of, news: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.selected(of) {
		if version, err := strconv.Atoi(o.ResourceVersion); err == nil && version > since {
			w.add(change{watch.Added, o, version})
		}
	}
	for _, c := range s.gone[of.resource] {
		if c.version > since && of.selects(c.object) && since > 0 {
			w.add(c)
		}
	}
	s.watchers[w] = true
	return w, s.version
}

func (s *store) end(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

func (w *watcher) add(c change) {
	w.mu.Lock()
	w.changes = append(w.changes, c)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

func (w *watcher) take() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.changes
	w.changes = nil
	return taken
}
