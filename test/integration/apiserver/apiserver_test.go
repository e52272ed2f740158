package apiserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestClustersAreSeparateAndServeTheCustomResources(t *testing.T) {
	clusters := Start(t, Options{}, "c1", "c2")
	if clusters[0].Config.Host == clusters[1].Config.Host {
		t.Fatalf("both clusters are at %s", clusters[0].Config.Host)
	}
	for _, cluster := range clusters {
		targets := &unstructured.UnstructuredList{}
		targets.SetAPIVersion("multicluster.admiralty.io/v1alpha1")
		targets.SetKind("ClusterTargetList")
		if err := cluster.Client.List(t.Context(), targets); err != nil {
			t.Errorf("listing ClusterTargets in %q: %v", cluster.Name, err)
		}
	}
	namespace := clusters[0].Namespace(t, map[string]string{"multicluster-scheduler": "enabled"})
	err := clusters[1].Client.Get(t.Context(), client.ObjectKey{Name: namespace}, &corev1.Namespace{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a namespace of c1 in c2: %v", err)
	}
}

func TestOneClusterAlone(t *testing.T) {
	cluster := Start(t, Options{}, "c1")[0]

	t.Run("its kubeconfig leads to it", func(t *testing.T) {
		config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "default"}, &corev1.Namespace{}); err != nil {
			t.Error(err)
		}
	})

	t.Run("a user has no rights of its own", func(t *testing.T) {
		config, err := cluster.User("nobody")
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
			t.Errorf("listing secrets: %v, want Forbidden", err)
		}
	})

	t.Run("it can die", func(t *testing.T) {
		if err := cluster.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Client.List(t.Context(), &corev1.NamespaceList{}); err == nil {
			t.Error("it still answers")
		}
	})
}

func TestAMissingProgramIsNamed(t *testing.T) {
	root := t.TempDir()
	bin := filepath.Join(root, ".local", "bin")
	if err := os.MkdirAll(bin, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "etcd"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := prepare(root, Options{})
	if err == nil || !strings.Contains(err.Error(), "kube-apiserver") || !strings.Contains(err.Error(), "make test-integration") {
		t.Errorf("error %v names neither the program nor the remedy", err)
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
