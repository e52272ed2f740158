package proof

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// entry is the entry of the Secret's data that holds the keys.
	entry = "keys"
	// retry is the time until the next attempt to write the key. A change of the Secret makes it shorter.
	retry = 5 * time.Second
)

// Options of New. All are required.
type Options struct {
	// Client has the rights to get, list, watch and patch the Secret.
	Client kubernetes.Interface
	// Secret is the Secret of the keys, in the source.
	Secret types.NamespacedName
	Clock  clock.WithTicker
	Logger logr.Logger
}

// Keeper reads the keys from their Secret, and makes a key if there is none. It is a runnable of a controller-runtime
// manager. It must run on the leader only. All methods are safe for concurrent use.
type Keeper struct {
	options Options
	watch   *watch.Secret
	// changed has room for one: the Secret, or what we know of it, has changed.
	changed chan struct{}

	mu      sync.RWMutex // guards the fields below
	keys    *Keys
	problem error
}

// New returns a Keeper, which does nothing before Start.
func New(options Options) *Keeper {
	k := &Keeper{options: options, changed: make(chan struct{}, 1)}
	k.watch = watch.NewSecret(options.Client, options.Secret, k.wake)
	k.problem = k.because(errors.New("it has not been read yet"))
	return k
}

// Keys returns the keys. It fails until they have been read or made. The error says what to do. Then it never fails
// again: the last keys count, even if the Secret is deleted.
func (k *Keeper) Keys() (*Keys, error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if k.keys == nil {
		return nil, k.problem
	}
	return k.keys, nil
}

// Sign returns the proof of a claim. It fails as Keys does.
func (k *Keeper) Sign(claim Claim) (string, error) {
	keys, err := k.Keys()
	if err != nil {
		return "", err
	}
	return keys.Sign(claim), nil
}

// Start runs until ctx ends.
func (k *Keeper) Start(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() { k.watch.Run(ctx); close(stopped) }()
	for {
		again := k.keep(ctx)
		select {
		case <-k.changed:
		case <-again:
		case <-ctx.Done():
			<-stopped
			return nil
		}
	}
}

func (k *Keeper) wake() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// keep reads the keys, or makes one. It returns when to do so again, or nil if only a change can help.
func (k *Keeper) keep(ctx context.Context) <-chan time.Time {
	keys, err := k.ensure(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if apierrors.IsConflict(err) {
		// Another leader was first. Its key is about to arrive; the retry covers the case that it does not.
		return k.options.Clock.After(retry)
	}
	k.set(keys, err)
	if err != nil {
		return k.options.Clock.After(retry)
	}
	return nil
}

func (k *Keeper) set(keys *Keys, err error) {
	k.mu.Lock()
	before, had := k.problem, k.keys
	k.problem = nil
	if err != nil {
		k.problem = k.because(err)
	} else {
		k.keys = keys
	}
	now := k.problem
	k.mu.Unlock()
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		k.options.Logger.Error(now, "No key for the proofs of PodChaperons", "lastKeyIsUsed", had != nil)
	case now == nil && before != nil:
		k.options.Logger.Info("Read the key for the proofs of PodChaperons", "key", keys.all[0].id())
	}
}

// ensure returns the keys of the Secret. If there are none, it makes one.
func (k *Keeper) ensure(ctx context.Context) (*Keys, error) {
	if !k.watch.Known() {
		return nil, k.unread()
	}
	secret := k.watch.Last()
	if secret == nil {
		return nil, errors.New("it does not exist; helm upgrade creates it, and an empty Secret of that name does, too")
	}
	keys, err := parse(secret.Data[entry])
	if err != nil {
		return nil, fmt.Errorf("its entry %q is broken; mend it, or remove the entry to have a new key: %w", entry, err)
	}
	if keys == nil {
		return k.make(ctx, secret)
	}
	return keys, nil
}

func (k *Keeper) unread() error {
	err := k.watch.Err()
	switch {
	case err == nil:
		return errors.New("it has not been read yet")
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the manager may not list and watch it; helm upgrade gives it the right: %w", err)
	default:
		return fmt.Errorf("it cannot be read: %w", err)
	}
}

// make writes a new key into the Secret. It fails with a conflict if somebody has changed the Secret meanwhile, such as
// another leader.
func (k *Keeper) make(ctx context.Context, secret *corev1.Secret) (*Keys, error) {
	made := Generate(k.options.Clock.Now())
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": secret.UID, "resourceVersion": secret.ResourceVersion},
		"data":     map[string][]byte{entry: made.all[0].encode()},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	_, err = k.options.Client.CoreV1().Secrets(secret.Namespace).Patch(
		ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: v1alpha1.FieldOwner},
	)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("the manager may not patch it; helm upgrade gives it the right: %w", err)
	case err != nil:
		return nil, fmt.Errorf("writing a key into it: %w", err)
	}
	return made, nil
}

// because says what is wrong, and what follows from it.
func (k *Keeper) because(err error) error {
	return fmt.Errorf("no pod is placed without a key in the Secret %q: %w", k.options.Secret, err)
}
