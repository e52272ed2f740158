package target

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

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

	mu       sync.Mutex // guards the fields below, and users of the watches
	watches  map[types.NamespacedName]*secretWatch
	byTarget map[types.NamespacedName]types.NamespacedName
}

type secretWatch struct {
	*watch.Secret

	stop  context.CancelFunc
	users map[types.NamespacedName]struct{}
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
	watched, ok := s.watches[secret]
	if !ok {
		watched = s.startWatch(ctx, secret)
		s.watches[secret] = watched
	}
	watched.users[target] = struct{}{}
	s.byTarget[target] = secret
	return watched.state()
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
	watched := s.watches[secret]
	delete(watched.users, target)
	if len(watched.users) == 0 {
		watched.stop()
		delete(s.watches, secret)
	}
}

func (s *secrets) startWatch(ctx context.Context, secret types.NamespacedName) *secretWatch {
	ctx, stop := context.WithCancel(ctx)
	w := &secretWatch{stop: stop, users: map[types.NamespacedName]struct{}{}}
	w.Secret = watch.NewSecret(s.client, secret, func() { s.wakeUsers(w) })
	go w.Run(ctx)
	return w
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

func (w *secretWatch) state() secretState {
	if !w.Known() {
		err := w.Err()
		return secretState{known: apierrors.IsForbidden(err), err: err}
	}
	secret := w.Last()
	if secret == nil {
		return secretState{known: true}
	}
	return secretState{known: true, exists: true, data: secret.Data}
}
