package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ref names an object in a store.
type ref struct {
	kind reflect.Type
	key  types.NamespacedName
}

func refOf(o client.Object) ref { return ref{reflect.TypeOf(o), client.ObjectKeyFromObject(o)} }

// change is what a write did. before is nil if the object is new, and after if it is gone.
type change struct {
	before, after client.Object
	version       int
	at            time.Time
	// initial says that the object was there when the watch began.
	initial bool
}

// object returns the object as it is, or was at last.
func (c change) object() client.Object {
	if c.after != nil {
		return c.after
	}
	return c.before
}

// store has the objects of one cluster. An object in it never changes: a write replaces it. It is safe for concurrent
// use.
type store struct {
	name string
	// admits is called with each object that is to be created. It may change the object, or refuse it.
	admits func(client.Object) error

	mu       sync.Mutex // guards the fields below
	version  int
	uids     int
	objects  map[ref]client.Object
	watchers []func(change) // They are called with the lock held, and must not wait.
}

func newStore(name string) *store {
	return &store{name: name, objects: map[ref]client.Object{}, admits: func(client.Object) error { return nil }}
}

// watch calls f with all objects, as new ones, and then with each change.
func (s *store) watch(f func(change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		f(change{after: o, version: s.version, at: time.Now(), initial: true})
	}
	s.watchers = append(s.watchers, f)
}

func (s *store) get(r ref) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(r)
}

// find must be called with the lock held.
func (s *store) find(r ref) (client.Object, error) {
	o, ok := s.objects[r]
	if !ok {
		return nil, apierrors.NewNotFound(resourceOf(r), r.key.Name)
	}
	return o, nil
}

// create stores a copy of the object, and returns the copy.
func (s *store) create(o client.Object) (client.Object, error) {
	created := copyOf(o)
	if err := s.admits(created); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := refOf(created)
	if _, exists := s.objects[r]; exists {
		return nil, apierrors.NewAlreadyExists(resourceOf(r), r.key.Name)
	}
	s.uids++
	created.SetUID(types.UID(fmt.Sprintf("%08x-%s", s.uids, s.name)))
	created.SetCreationTimestamp(metav1.NewTime(time.Now()))
	if pod, ok := created.(*corev1.Pod); ok {
		pod.Status.Phase = corev1.PodPending
		setPriority(pod)
	}
	s.put(nil, created)
	return created, nil
}

// put must be called with the lock held.
func (s *store) put(before, after client.Object) {
	s.version++
	after.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[refOf(after)] = after
	s.publish(change{before: before, after: after, version: s.version, at: time.Now()})
}

func (s *store) publish(c change) {
	for _, f := range s.watchers {
		f(c)
	}
}

// update replaces an object by what change makes of a copy of it. It does nothing if change returns false.
func (s *store) update(r ref, change func(client.Object) bool) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.find(r)
	if err != nil {
		return nil, err
	}
	after := copyOf(before)
	if !change(after) {
		return before, nil
	}
	s.put(before, after)
	return after, nil
}

// patch applies a merge patch. The UID and the resource version in it are preconditions.
func (s *store) patch(r ref, data []byte) (client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := s.find(r)
	if err != nil {
		return nil, err
	}
	expected := metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, &expected); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	if err := precondition(r, before, expected.UID, expected.ResourceVersion); err != nil {
		return nil, err
	}
	was, err := json.Marshal(before)
	if err != nil {
		return nil, fmt.Errorf("encoding an object: %w", err)
	}
	is, err := jsonpatch.MergePatch(was, data)
	if err != nil {
		return nil, fmt.Errorf("applying a patch: %w", err)
	}
	after, _ := reflect.New(r.kind.Elem()).Interface().(client.Object)
	if err := json.Unmarshal(is, after); err != nil {
		return nil, fmt.Errorf("reading a patched object: %w", err)
	}
	s.put(before, after)
	return after, nil
}

func precondition(r ref, o client.Object, uid types.UID, version string) error {
	if uid != "" && uid != o.GetUID() || version != "" && version != o.GetResourceVersion() {
		return apierrors.NewConflict(resourceOf(r), r.key.Name, errors.New("the object is another one"))
	}
	return nil
}

// remove removes an object, and what it owns.
func (s *store) remove(r ref, conditions *metav1.Preconditions) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.find(r)
	if err != nil {
		return err
	}
	if conditions != nil {
		var uid types.UID
		var version string
		if conditions.UID != nil {
			uid = *conditions.UID
		}
		if conditions.ResourceVersion != nil {
			version = *conditions.ResourceVersion
		}
		if err := precondition(r, o, uid, version); err != nil {
			return err
		}
	}
	s.drop(r, o)
	if _, ok := o.(*v1alpha1.PodChaperon); ok { // A delegate has the name of its PodChaperon.
		owned := ref{reflect.TypeFor[*corev1.Pod](), r.key}
		if pod, ok := s.objects[owned]; ok && metav1.IsControlledBy(pod, o) {
			s.drop(owned, pod)
		}
	}
	return nil
}

// drop must be called with the lock held.
func (s *store) drop(r ref, o client.Object) {
	delete(s.objects, r)
	s.version++
	s.publish(change{before: o, version: s.version, at: time.Now()})
}

func copyOf[T client.Object](o T) T {
	copied, _ := o.DeepCopyObject().(T)
	return copied
}

func resourceOf(r ref) schema.GroupResource {
	return schema.GroupResource{Resource: r.kind.Elem().Name()}
}
