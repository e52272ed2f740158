package target

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// secretState is the state of a Secret. It is known once the first list has succeeded or was forbidden. Until then, the
// status that an earlier manager wrote stays. After a success, the last state counts, even if the watch fails.
type secretState struct {
	known  bool
	err    error
	exists bool
	data   map[string][]byte
}

// secrets watches the Secrets that targets refer to, one by one, by name. It is safe for concurrent use.
type secrets struct {
	client kubernetes.Interface
	wake   func(target types.NamespacedName)

	mu       sync.Mutex // guards the fields below, and users and err of the watches
	watches  map[types.NamespacedName]*secretWatch
	byTarget map[types.NamespacedName]types.NamespacedName
}

type secretWatch struct {
	informer cache.SharedIndexInformer
	stop     context.CancelFunc
	users    map[types.NamespacedName]struct{}
	err      error
}

func newSecrets(client kubernetes.Interface, wake func(types.NamespacedName)) *secrets {
	return &secrets{
		client:   client,
		wake:     wake,
		watches:  map[types.NamespacedName]*secretWatch{},
		byTarget: map[types.NamespacedName]types.NamespacedName{},
	}
}

// use records that the target refers to the Secret, and returns the Secret's state. Every change wakes the target,
// until the target uses another Secret or is released. Watches end with ctx.
func (s *secrets) use(ctx context.Context, target, secret types.NamespacedName) secretState {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.byTarget[target]; ok && was != secret {
		s.dropUse(target)
	}
	watch, ok := s.watches[secret]
	if !ok {
		watch = s.startWatch(ctx, secret)
		s.watches[secret] = watch
	}
	watch.users[target] = struct{}{}
	s.byTarget[target] = secret
	return watch.state(secret)
}

// release ends the target's use of its Secret, if it uses one.
func (s *secrets) release(target types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropUse(target)
}

func (s *secrets) dropUse(target types.NamespacedName) {
	secret, ok := s.byTarget[target]
	if !ok {
		return
	}
	delete(s.byTarget, target)
	watch := s.watches[secret]
	delete(watch.users, target)
	if len(watch.users) == 0 {
		watch.stop()
		delete(s.watches, secret)
	}
}

func (s *secrets) startWatch(ctx context.Context, secret types.NamespacedName) *secretWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &secretWatch{
		informer: cache.NewSharedIndexInformer(s.listWatch(secret), &corev1.Secret{}, 0, cache.Indexers{}),
		stop:     stop,
		users:    map[types.NamespacedName]struct{}{},
	}
	// Neither call fails on an informer that has not started.
	_, _ = w.informer.AddEventHandler(watch.OnAny(func(*corev1.Secret) { s.wakeUsers(w) }))
	_ = w.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.mu.Lock()
		w.err = err
		s.mu.Unlock()
		s.wakeUsers(w)
	})
	go w.informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), w.informer.HasSynced) {
			s.wakeUsers(w) // A Secret that does not exist makes no event.
		}
	}()
	return w
}

func (s *secrets) listWatch(secret types.NamespacedName) cache.ListerWatcher {
	client := s.client.CoreV1().Secrets(secret.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, secret.Name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.FieldSelector = selector
			return client.Watch(ctx, options)
		},
	}, s.client)
}

func (s *secrets) wakeUsers(w *secretWatch) {
	s.mu.Lock()
	users := make([]types.NamespacedName, 0, len(w.users))
	for user := range w.users {
		users = append(users, user)
	}
	s.mu.Unlock()
	for _, user := range users {
		s.wake(user)
	}
}

func (w *secretWatch) state(secret types.NamespacedName) secretState {
	if !w.informer.HasSynced() {
		return secretState{known: apierrors.IsForbidden(w.err), err: w.err}
	}
	object, exists, err := w.informer.GetStore().GetByKey(secret.String())
	if err != nil || !exists {
		return secretState{known: true, err: err}
	}
	return secretState{known: true, exists: true, data: object.(*corev1.Secret).Data}
}
