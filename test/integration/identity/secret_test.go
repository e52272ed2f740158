package identity

import (
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

func TestADeletedSecretEndsNoConnectionBeforeItsCredentialsEnd(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	f := newFront(t, c2)
	a := connect(t, namespace, "a", f.login)
	inA := a.run(t, c2)
	engaged := a.engaged(t)

	env.Delete(t, c1, a.secret)
	a.waitFor(t, v1alpha1.ConditionSecretUsable, v1alpha1.ReasonSecretNotFound, "goes on with the credentials")
	env.WaitForEvent(t, c1, a.ClusterTarget, v1alpha1.ReasonSecretNotFound, "create it")
	a.waitConnected(t)
	if a.engaged(t) != engaged {
		t.Error("the target was connected anew")
	}
	inA.report(t, corev1.PodRunning)
	inA.expectKept(t)

	f.route(func(*http.Request) (*env.Cluster, int) { return nil, http.StatusUnauthorized })
	a.waitFor(t, v1alpha1.ConditionConnected, v1alpha1.ReasonSecretNotFound, "create it")
	if _, ok := registry.ByKey(a.key()); ok {
		t.Error("the target is still engaged")
	}
	inA.expectKept(t)

	f.leadTo(c2)
	env.CreateForTest(t, c1, secretOf(t, namespace, "a", f.login))
	a.waitConnected(t)
	waitUsable(t, a)
	inA.expectKept(t)
}

func TestABrokenSecretEndsNoConnection(t *testing.T) {
	namespace := env.Namespace(t, nil, c1, c2)
	a := connect(t, namespace, "a", logins[c2])
	inA := a.run(t, c2)
	engaged := a.engaged(t)
	env.Change(t, c1, a.secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"config": []byte("hello")} })
	a.waitFor(t, v1alpha1.ConditionSecretUsable, v1alpha1.ReasonInvalidKubeconfig, "not a kubeconfig")
	a.waitConnected(t)
	a.setLogin(t, logins[c2])
	waitUsable(t, a)
	if a.engaged(t) != engaged {
		t.Error("the target was connected anew")
	}
	inA.report(t, corev1.PodSucceeded)
}

// waitUsable waits until nothing is wrong with the Secret of a target.
func waitUsable(t *testing.T, s *site) {
	t.Helper()
	env.WaitFor(t, c1, s.ClusterTarget, func(target *v1alpha1.ClusterTarget) error {
		if meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionSecretUsable) != nil {
			return errors.New("the Secret is still said to be unusable")
		}
		return nil
	})
}
