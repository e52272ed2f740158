package proof

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func claim() proof.Claim {
	return proof.Claim{UID: "1", Proxy: types.NamespacedName{Namespace: "a", Name: "b"}}
}

// waitForKeys waits until a keeper has keys that the check accepts.
func waitForKeys(t *testing.T, keeper *proof.Keeper, check func(*proof.Keys) error) *proof.Keys {
	t.Helper()
	var keys *proof.Keys
	env.Eventually(t, func(context.Context) (err error) {
		if keys, err = keeper.Keys(); err != nil {
			return err
		}
		return check(keys)
	})
	return keys
}

func anyKeys(*proof.Keys) error { return nil }

// notOf returns a check that the keys are others than these.
func notOf(before *proof.Keys) func(*proof.Keys) error {
	return func(keys *proof.Keys) error {
		if keys.Sign(claim()) == before.Sign(claim()) {
			return errors.New("the key is still the first")
		}
		return nil
	}
}

func TestTwoLeadersAgreeOnOneKey(t *testing.T) {
	login, namespace := install(t)
	// Both leaders have seen the empty Secret before one of them writes. The second writes when the first is done. A
	// leader may try again before its watch shows what it wrote. That fails, and need not wait.
	turns := make(chan chan struct{}, 2)
	var writes atomic.Int32
	login = env.Intercept(login, func(request *http.Request) *http.Response {
		if request.Method == http.MethodPatch && writes.Add(1) <= 2 {
			turn := make(chan struct{})
			turns <- turn
			<-turn
		}
		return nil
	})
	one, other := run(t, login, namespace), run(t, login, namespace)
	env.Eventually(t, func(context.Context) error {
		if len(turns) < 2 {
			return errors.New("two leaders have not written yet")
		}
		return nil
	})
	close(<-turns)
	env.Eventually(t, func(context.Context) (err error) {
		if _, err = one.Keys(); err != nil {
			one, other = other, one
		}
		return err
	})
	first := waitForKeys(t, one, anyKeys)
	close(<-turns)
	second := waitForKeys(t, other, anyKeys)
	if first.Sign(claim()) != second.Sign(claim()) || !first.CreatedAt().Equal(second.CreatedAt()) {
		t.Error("the leaders have different keys")
	}
	stored := env.Get(t, cluster, secret(namespace)).Data["keys"]
	if keys := bytes.Count(stored, []byte("\n")); keys != 1 {
		t.Errorf("the Secret has %d keys, want 1", keys)
	}
	third := waitForKeys(t, run(t, login, namespace), anyKeys)
	if !third.Verify(claim(), first.Sign(claim())) {
		t.Error("the next leader refuses a proof of the first one")
	}
}

func TestALostKeyIsMadeAnew(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, namespace string){
		"the Secret is emptied": func(t *testing.T, namespace string) {
			t.Helper()
			env.Change(t, cluster, secret(namespace), func(s *corev1.Secret) { s.Data = nil })
		},
		"the Secret is deleted, and made again by the chart": func(t *testing.T, namespace string) {
			t.Helper()
			env.Delete(t, cluster, secret(namespace))
			env.Create(t, cluster, secret(namespace))
		},
	} {
		t.Run(name, func(t *testing.T) {
			login, namespace := install(t)
			keeper, clock := newKeeper(t, login, namespace)
			env.Run(t, keeper.Start)
			first := waitForKeys(t, keeper, anyKeys)
			clock.Step(time.Hour)
			lose(t, namespace)
			second := waitForKeys(t, keeper, notOf(first))
			if second.Verify(claim(), first.Sign(claim())) {
				t.Error("a proof of the lost key is accepted")
			}
			if passed := second.CreatedAt().Sub(first.CreatedAt()); passed < time.Hour-time.Second {
				t.Errorf("the new key is %s younger, want an hour: its proofs begin now", passed)
			}
		})
	}
}

func TestALeaderGoesOnWithTheKeyOfASecretThatIsGone(t *testing.T) {
	login, namespace := install(t)
	keeper := run(t, login, namespace)
	first := waitForKeys(t, keeper, anyKeys)
	env.Delete(t, cluster, secret(namespace))
	waitForProblem(t, run(t, login, namespace), "does not exist")
	if err := notOf(first)(waitForKeys(t, keeper, anyKeys)); err == nil {
		t.Error("the key has changed, want the last one")
	}
}

func TestAnAdministratorMayAddAKey(t *testing.T) {
	login, namespace := install(t)
	keeper := run(t, login, namespace)
	first := waitForKeys(t, keeper, anyKeys)
	env.Change(t, cluster, secret(namespace), func(s *corev1.Secret) {
		const added = "2020-01-02T03:04:05Z MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n"
		s.Data["keys"] = append([]byte(added), s.Data["keys"]...)
	})
	both := waitForKeys(t, keeper, notOf(first))
	if !both.Verify(claim(), first.Sign(claim())) {
		t.Error("a proof of the second key is refused")
	}
}

// waitForProblem waits until a keeper without keys says why.
func waitForProblem(t *testing.T, keeper *proof.Keeper, want string) {
	t.Helper()
	env.Eventually(t, func(context.Context) error {
		proved, err := keeper.Sign(claim())
		switch {
		case proved != "":
			t.Fatalf("got the proof %q without a key", proved)
		case err == nil || !strings.Contains(err.Error(), want):
			return fmt.Errorf("the error is %w, want it to contain %q", err, want)
		case !strings.Contains(err.Error(), "no pod is placed") || !strings.Contains(err.Error(), "/"+name):
			t.Fatalf("the error is %q, want what follows, and the Secret", err)
		}
		return nil
	})
}

func TestWithoutAKeyTheErrorSaysWhatToDo(t *testing.T) {
	for title, test := range map[string]struct {
		verbs  []string
		spoil  func(t *testing.T, namespace string)
		want   []string
		mended func(t *testing.T, user, namespace string)
	}{
		"the Secret does not exist": {
			verbs: []string{"get", "list", "watch", "patch"},
			spoil: func(*testing.T, string) {},
			want:  []string{"it does not exist", "helm upgrade"},
			mended: func(t *testing.T, _, namespace string) {
				t.Helper()
				env.Create(t, cluster, secret(namespace))
			},
		},
		"the manager may not read the Secret": {
			verbs: []string{"get", "patch"},
			spoil: func(t *testing.T, namespace string) {
				t.Helper()
				env.Create(t, cluster, secret(namespace))
			},
			want: []string{"may not list and watch it", "helm upgrade"},
			mended: func(t *testing.T, user, namespace string) {
				t.Helper()
				cluster.Grant(t, user, namespace, rule("list", "watch"))
			},
		},
		"the manager may not write the Secret": {
			verbs: []string{"get", "list", "watch"},
			spoil: func(t *testing.T, namespace string) {
				t.Helper()
				env.Create(t, cluster, secret(namespace))
			},
			want: []string{"may not patch it", "helm upgrade"},
			mended: func(t *testing.T, user, namespace string) {
				t.Helper()
				cluster.Grant(t, user, namespace, rule("patch"))
				touch := func(s *corev1.Secret) { s.Annotations = map[string]string{"touched": "true"} }
				env.Change(t, cluster, secret(namespace), touch)
			},
		},
		"somebody has broken the entry": {
			verbs: []string{"get", "list", "watch", "patch"},
			spoil: func(t *testing.T, namespace string) {
				t.Helper()
				broken := secret(namespace)
				broken.Data = map[string][]byte{"keys": []byte("swordfish")}
				env.Create(t, cluster, broken)
			},
			want: []string{`its entry "keys" is broken`, "line 1"},
			mended: func(t *testing.T, _, namespace string) {
				t.Helper()
				env.Change(t, cluster, secret(namespace), func(s *corev1.Secret) { s.Data = nil })
			},
		},
	} {
		t.Run(title, func(t *testing.T) {
			namespace := env.Namespace(t, nil, cluster)
			user := "manager of " + namespace
			login := cluster.User(t, user)
			cluster.Grant(t, user, namespace, rule(test.verbs...))
			test.spoil(t, namespace)
			keeper := run(t, login, namespace)
			for _, want := range test.want {
				waitForProblem(t, keeper, want)
			}
			test.mended(t, user, namespace)
			waitForKeys(t, keeper, anyKeys)
		})
	}
}

func rule(verbs ...string) rbacv1.PolicyRule {
	rule := env.Rule("", []string{"secrets"}, verbs...)
	rule.ResourceNames = []string{name}
	return rule
}
