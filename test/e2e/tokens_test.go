//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// multicluster runs the kubectl plug-in.
func multicluster(ctx context.Context, t *testing.T, args ...string) {
	t.Helper()
	if out, err := run(ctx, "kubectl-multicluster", args...); err != nil {
		t.Errorf("kubectl multicluster %v: %v\n%s", args, err, out)
	}
}

func TestARevokedSourceHasNoRights(t *testing.T) {
	w := setUp(t)
	between := []string{"--namespaced", "-n", w.namespace, "--source-context", "c1", "--target-context", "c2"}
	multicluster(t.Context(), t, append([]string{"connect", "mine"}, between...)...)
	t.Cleanup(func() {
		multicluster(context.WithoutCancel(t.Context()), t, append([]string{"disconnect", "mine"}, between...)...)
	})
	stolen := w.loginOf(t, "mine")
	chaperons := &v1alpha1.PodChaperonList{}
	if err := stolen.List(t.Context(), chaperons, client.InNamespace(w.namespace)); err != nil {
		t.Fatalf("the source has no rights before: %v", err)
	}

	multicluster(t.Context(), t, "disconnect", "--revoke", "--namespaced", "-n", w.namespace,
		"--target-context", "c2", "--source-name", "c1")
	revoked := time.Now()
	eventually(t, "the token to be refused", func(ctx context.Context) error {
		if err := stolen.List(ctx, chaperons, client.InNamespace(w.namespace)); !apierrors.IsUnauthorized(err) {
			return fmt.Errorf("another answer than Unauthorized: %w", err)
		}
		return nil
	})
	if took := time.Since(revoked); took > 15*time.Second {
		t.Errorf("the token was refused after %s, want about 10 s", took)
	}
	eventually(t, "the Target to say so", func(ctx context.Context) error {
		target := &v1alpha1.Target{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "mine"}, target); err != nil {
			return err
		}
		c := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionConnected)
		if c == nil || c.Reason != v1alpha1.ReasonUnauthorized {
			return fmt.Errorf("it says %+v", target.Status.Conditions)
		}
		return nil
	})
	w.says(t, "c2", v1alpha1.ReasonConnected) // The ClusterSource of c1 has another account.
}

// loginOf returns a client of c2 with the kubeconfig of a Secret of the namespace in c1.
func (w *world) loginOf(t *testing.T, name string) client.Client {
	t.Helper()
	secret := &corev1.Secret{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["config"])
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: w.c2.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
