package env

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestClustersAreSeparateAndServeTheCustomResources(t *testing.T) {
	clusters := Start(t, "c1", "c2")
	if clusters[0].Config.Host == clusters[1].Config.Host {
		t.Fatalf("both clusters are at %s", clusters[0].Config.Host)
	}
	for _, cluster := range clusters {
		if err := cluster.Client.List(t.Context(), &v1alpha1.ClusterTargetList{}); err != nil {
			t.Errorf("listing ClusterTargets in %q: %v", cluster.Name, err)
		}
	}
	namespace := Namespace(t, Enabled(), clusters[0])
	if Exists(t, clusters[1], &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}) {
		t.Error("a namespace of c1 exists in c2")
	}
}

func TestOneCluster(t *testing.T) {
	cluster := Start(t, "c1")[0]
	secret := &corev1.Secret{ObjectMeta: Meta(metav1.NamespaceDefault, "db")}
	secret.Data = map[string][]byte{"a": {1}, "b": {2}}
	secret.Finalizers = []string{"example.com/hold"}

	t.Run("a kubeconfig leads to its cluster", func(t *testing.T) {
		kubeconfig := Kubeconfig(t, Context{"c1", cluster.Config}, Context{"c2", cluster.User(t, "somebody")})
		config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
		Must(t, err)
		Must(t, ClientFor(t, config).List(t.Context(), &corev1.SecretList{}))
	})
	t.Run("a user has the rights that it is granted", func(t *testing.T) {
		asUser := ClientFor(t, cluster.User(t, "user"))
		if err := asUser.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing Secrets: %v, want Forbidden", err)
		}
		cluster.Grant(t, "user", "", Rule("", []string{"secrets"}, "list"))
		Must(t, asUser.List(t.Context(), &corev1.SecretList{}))
	})
	t.Run("a token leads to the rights of its service account", func(t *testing.T) {
		account := &corev1.ServiceAccount{ObjectMeta: Meta(metav1.NamespaceDefault, "account")}
		asAccount := ClientFor(t, cluster.Token(t, account))
		user := ServiceAccountUser(metav1.NamespaceDefault, "account")
		cluster.Grant(t, user, "", Rule("", []string{"secrets"}, "list"))
		Must(t, asAccount.List(t.Context(), &corev1.SecretList{}))
	})
	t.Run("an intercepted request gets the answer of the test", func(t *testing.T) {
		teapot := func(r *http.Request) *http.Response {
			return &http.Response{StatusCode: http.StatusTeapot, Body: io.NopCloser(strings.NewReader("")), Request: r}
		}
		err := ClientFor(t, Intercept(cluster.Config, teapot)).List(t.Context(), &corev1.SecretList{})
		if status := apierrors.APIStatus(nil); !errors.As(err, &status) || status.Status().Code != http.StatusTeapot {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an object that is read keeps nothing of what it was", func(t *testing.T) {
		Create(t, cluster, secret)
		stale := secret.DeepCopy()
		Change(t, cluster, secret, func(s *corev1.Secret) { delete(s.Data, "a") })
		if got := Get(t, cluster, stale).Data; len(got) != 1 {
			t.Errorf("the data are %v", got)
		}
	})
	t.Run("an object is gone once its finalizers are removed", func(t *testing.T) {
		Delete(t, cluster, secret)
		if !Exists(t, cluster, secret) || secret.DeletionTimestamp == nil {
			t.Errorf("the finalizer does not hold it: %v", secret.ObjectMeta)
		}
		RemoveFinalizers(t, cluster, secret)
		WaitGone(t, cluster, secret)
	})
	t.Run("a cluster that is stopped does not answer", func(t *testing.T) {
		Must(t, cluster.Stop())
		if err := cluster.Client.List(t.Context(), &corev1.NamespaceList{}); err == nil {
			t.Error("it still answers")
		}
	})
}

func TestAMissingProgramIsNamed(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, ".local", "bin")
	Must(t, os.MkdirAll(bin, 0o750))
	Must(t, os.WriteFile(filepath.Join(bin, "etcd"), nil, 0o700))
	_, err := prepare(root, kind{customResources: true})
	for _, want := range []string{"kube-apiserver", "make test-integration"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestEventuallyReportsTheLastErrorThatMattered(t *testing.T) {
	sentinel := errors.New("no pods yet")
	err := eventually(t.Context(), 50*time.Millisecond, func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return sentinel
	})
	if !errors.Is(err, sentinel) {
		t.Errorf("error is %v, want the last one of the check", err)
	}
	calls := 0
	if err := eventually(t.Context(), time.Minute, func(context.Context) error {
		if calls++; calls < 3 {
			return sentinel
		}
		return nil
	}); err != nil {
		t.Errorf("a check that succeeds the third time: %v", err)
	}
}

func TestASuiteCleansUpAfterItsTests(t *testing.T) {
	for name, test := range map[string]struct {
		setUp func(T)
		want  []string
		code  int
	}{
		"a set-up that succeeds": {func(T) {}, []string{"tests", "second", "first"}, 3},
		"a set-up that fails":    {func(s T) { s.Fatalf("on purpose") }, []string{"second", "first"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			code := run(func() int { got = append(got, "tests"); return 3 }, func(s T) {
				s.Cleanup(func() { got = append(got, "first") })
				s.Cleanup(func() { got = append(got, "second") })
				test.setUp(s)
			})
			if code != test.code || !slices.Equal(got, test.want) {
				t.Errorf("code %d, steps %v, want %d, %v", code, got, test.code, test.want)
			}
		})
	}
}
