package proof

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

var secretName = types.NamespacedName{Namespace: "system", Name: "keys"}

// keeping is a Keeper that runs, and a fake source. Time passes only while everybody waits.
type keeping struct {
	*testing.T
	*Keeper

	clients *fake.Clientset
	// fail has the errors of requests, by their verbs.
	fail sync.Map
}

// keep runs a test with a Keeper of a Secret with these keys. Without a Secret, keys is nil. Requests fail as before
// says, which may be nil.
func keep(t *testing.T, keys *string, before, test func(k *keeping)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		k := &keeping{T: t, clients: fake.NewClientset()}
		if keys != nil {
			k.write(*keys)
		}
		k.clients.PrependReactor("*", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			if err, ok := k.fail.Load(action.GetVerb()); ok {
				return true, nil, err.(error) //nolint:forcetypeassert // a test
			}
			return false, nil, nil
		})
		k.Keeper = New(Options{
			Client: k.clients, Secret: secretName, Clock: clock.RealClock{}, Logger: logr.Discard(),
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stopped := make(chan error, 1)
		if before != nil {
			before(k)
		}
		go func() { stopped <- k.Start(ctx) }()
		rest()
		test(k)
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// rest waits until the informer and the Keeper have seen everything.
func rest() {
	time.Sleep(time.Second) //nolint:forbidigo // This is the time of the bubble.
	synctest.Wait()
}

// write creates the Secret, or changes it.
func (k *keeping) write(keys string) {
	k.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretName.Namespace, Name: secretName.Name}}
	if keys != "" {
		secret.Data = map[string][]byte{entry: []byte(keys)}
	}
	secrets := k.clients.CoreV1().Secrets(secretName.Namespace)
	_, err := secrets.Update(k.Context(), secret, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = secrets.Create(k.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		k.Fatal(err)
	}
}

// expectError wants that there are no keys, and that the reason says so.
func (k *keeping) expectError(text string) {
	k.Helper()
	keys, err := k.Keys()
	if keys != nil || err == nil || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "no pod") {
		k.Errorf("keys %v, error %v, want %q", keys != nil, err, text)
	}
	if proof, err := k.Sign(claim()); proof != "" || err == nil {
		k.Errorf("proof %q, error %v", proof, err)
	}
}

// expectKeys wants that proofs verify against the keys of the Secret.
func (k *keeping) expectKeys() {
	k.Helper()
	proof, err := k.Sign(claim())
	if err != nil {
		k.Fatal(err)
	}
	secrets := k.clients.CoreV1().Secrets(secretName.Namespace)
	secret, err := secrets.Get(k.Context(), secretName.Name, metav1.GetOptions{})
	if err != nil {
		k.Fatal(err)
	}
	stored, err := parse(secret.Data[entry])
	if err != nil || stored == nil || !stored.Verify(claim(), proof) {
		k.Errorf("the Secret has other keys: %v", err)
	}
}

func TestAKeyIsMadeOnceForAnEmptySecret(t *testing.T) {
	keep(t, nil, nil, func(k *keeping) {
		k.expectError("does not exist")
		k.write("")
		rest()
		k.expectKeys()
		proof, _ := k.Sign(claim())
		time.Sleep(time.Minute) //nolint:forbidigo // This is the time of the bubble.
		if again, _ := k.Sign(claim()); again != proof {
			t.Error("another key was made")
		}
	})
}

func TestKeysAreReadAndKept(t *testing.T) {
	first, second := newKey(start), newKey(start.Add(time.Hour))
	text := string(first.encode())
	keep(t, &text, nil, func(k *keeping) {
		k.expectKeys()
		k.write(string(second.encode()))
		rest()
		k.expectKeys()
		proof, _ := k.Sign(claim())
		secrets := k.clients.CoreV1().Secrets(secretName.Namespace)
		if err := secrets.Delete(k.Context(), secretName.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // This is the time of the bubble.
		if again, err := k.Sign(claim()); again != proof || err != nil {
			t.Errorf("after the deletion: %v", err)
		}
	})
}

func TestABrokenSecretIsMended(t *testing.T) {
	text := "nonsense"
	keep(t, &text, nil, func(k *keeping) {
		k.expectError("broken")
		k.write(string(newKey(start).encode()))
		rest()
		k.expectKeys()
	})
}

func TestWhatStandsInTheWayOfAKeyIsSaidAndTriedAgain(t *testing.T) {
	resource := corev1.Resource("secrets")
	down := errors.New("down")
	for name, test := range map[string]struct {
		verb string
		err  error
		says string
	}{
		"no right to list":        {"list", apierrors.NewForbidden(resource, "keys", down), "may not list"},
		"a list that fails":       {"list", down, "cannot be read"},
		"no right to patch":       {"patch", apierrors.NewForbidden(resource, "keys", down), "may not patch"},
		"a patch that fails":      {"patch", down, "writing a key into it"},
		"another leader is first": {"patch", apierrors.NewConflict(resource, "keys", down), "not been read yet"},
	} {
		t.Run(name, func(t *testing.T) {
			empty := ""
			keep(t, &empty, func(k *keeping) { k.fail.Store(test.verb, test.err) }, func(k *keeping) {
				k.expectError(test.says)
				k.fail.Delete(test.verb)
				time.Sleep(time.Minute) //nolint:forbidigo // This is the time of the bubble.
				k.expectKeys()
			})
		})
	}
}
