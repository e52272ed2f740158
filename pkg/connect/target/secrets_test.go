package target

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestASecretIsWatchedOnceAndOnlyWhileItIsReferredTo(t *testing.T) {
	c2 := types.NamespacedName{Namespace: "admiralty", Name: "c2"}
	clients := fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c2.Namespace, Name: c2.Name},
		Data:       map[string][]byte{"config": []byte("old")},
	})
	woken := make(chan types.NamespacedName, 100)
	s := newSecrets(clients, func(key types.NamespacedName) { woken <- key })
	first, second := types.NamespacedName{Name: "first"}, types.NamespacedName{Name: "second"}

	expect := func(target types.NamespacedName, want string) {
		t.Helper()
		for {
			state := s.use(t.Context(), target, c2)
			if string(state.data["config"]) == want {
				return
			}
			select {
			case <-woken:
			case <-time.After(time.Minute):
				t.Fatalf("the Secret is %+v", state)
			}
		}
	}
	expect(first, "old")
	expect(second, "old")
	if len(s.watches) != 1 {
		t.Errorf("%d watches of one Secret", len(s.watches))
	}
	changed := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c2.Namespace, Name: c2.Name},
		Data:       map[string][]byte{"config": []byte("new")},
	}
	_, err := clients.CoreV1().Secrets(c2.Namespace).Update(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expect(first, "new")

	s.use(t.Context(), first, types.NamespacedName{Namespace: "admiralty", Name: "other"})
	if _, ok := s.watches[c2]; !ok || len(s.watches) != 2 {
		t.Error("the Secret that one target still refers to is not watched")
	}
	s.release(first)
	s.release(second)
	s.release(second)
	if len(s.watches) != 0 || len(s.byTarget) != 0 {
		t.Errorf("%d Secrets are watched for nobody", len(s.watches))
	}
}

func TestASecretThatCannotBeReadNowIsNotOneThatIsMissing(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"the API server is overloaded":        {apierrors.NewTooManyRequests("later", 1), false},
		"the manager may not read the Secret": {apierrors.NewForbidden(corev1.Resource("secrets"), "c2", nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			clients, woken, asked := fake.NewClientset(), make(chan struct{}, 100), make(chan struct{})
			clients.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				<-asked
				return true, nil, test.err
			})
			clients.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, apiwatch.Interface, error) {
				<-asked
				return true, nil, test.err
			})
			s := newSecrets(clients, func(types.NamespacedName) { woken <- struct{}{} })
			got := s.use(t.Context(), types.NamespacedName{Name: "first"}, types.NamespacedName{Name: "c2"})
			if got.known {
				t.Error("it is known before the API server has answered")
			}
			close(asked)
			<-woken
			got = s.use(t.Context(), types.NamespacedName{Name: "first"}, types.NamespacedName{Name: "c2"})
			if got.known != test.want {
				t.Errorf("known is %t, want %t", got.known, test.want)
			}
		})
	}
}
