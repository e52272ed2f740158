package watch

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Secret watches one Secret by its name. So it needs the rights to list and watch that name only. It is safe for
// concurrent use.
type Secret struct {
	name     types.NamespacedName
	informer cache.SharedIndexInformer
	changed  func()

	mu  sync.Mutex // guards err
	err error
}

// NewSecret returns a watch. It calls changed after each change of the Secret, after each failure, and when it knows
// for the first time whether the Secret exists. Calls may be concurrent.
func NewSecret(secrets kubernetes.Interface, name types.NamespacedName, changed func()) *Secret {
	s := &Secret{name: name, changed: changed}
	s.informer = cache.NewSharedIndexInformer(listOne(secrets, name), &corev1.Secret{}, 0, cache.Indexers{})
	// Neither call fails on an informer that has not started.
	_, _ = s.informer.AddEventHandler(OnAny(func(*corev1.Secret) { changed() }))
	_ = s.informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		changed()
	})
	return s
}

// Run watches until ctx ends. It must be called once only.
func (s *Secret) Run(ctx context.Context) {
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), s.informer.HasSynced) {
			s.changed() // A Secret that does not exist makes no event.
		}
	}()
	s.informer.RunWithContext(ctx)
}

// Known says whether the Secret was listed once, so that Last says whether it exists.
func (s *Secret) Known() bool { return s.informer.HasSynced() }

// Last returns the Secret as last seen, or nil if it does not exist. The caller must not change it.
func (s *Secret) Last() *corev1.Secret {
	object, exists, err := s.informer.GetStore().GetByKey(s.name.String())
	if err != nil || !exists {
		return nil
	}
	return object.(*corev1.Secret) //nolint:forcetypeassert // The informer is for Secrets.
}

// Err returns the last failure to list or watch the Secret, or nil. It stays after a success.
func (s *Secret) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func listOne(from kubernetes.Interface, name types.NamespacedName) cache.ListerWatcher {
	secrets := from.CoreV1().Secrets(name.Namespace)
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name.Name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector
			return secrets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.FieldSelector = selector
			return secrets.Watch(ctx, options)
		},
	}, from)
}
