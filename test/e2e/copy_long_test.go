//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	product "github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
)

// copyOfC1 starts a control plane with a copy of c1's etcd, and a manager in this process, until the test ends. The
// copy has the IDs, Secrets and Leases of c1. It has no kubelet and no other controller, so its own objects stay as
// they were copied.
func (w *world) copyOfC1(t *testing.T) *cluster {
	t.Helper()
	data := filepath.Join(t.TempDir(), "etcd")
	start := w.stopAPIServer(t, "c1") // Nobody else writes, so the files are consistent.
	out, err := exec.CommandContext(t.Context(), "cp", "-a", localFile("clusters/c1/etcd"), data).CombinedOutput()
	start()
	if err != nil {
		t.Fatalf("copying etcd: %v\n%s", err, out)
	}
	const patience = 2 * time.Minute // on a busy machine
	environment := &envtest.Environment{
		BinaryAssetsDirectory:    localFile("bin"),
		ControlPlaneStartTimeout: patience,
		ControlPlaneStopTimeout:  patience,
	}
	environment.ControlPlane.GetAPIServer().Path = localFile("bin/kube-apiserver")
	environment.ControlPlane.Etcd = &envtest.Etcd{Path: localFile("bin/etcd"), DataDir: data}
	config, err := environment.Start()
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Errorf("stopping the copy: %v", err)
		}
	})
	if err != nil {
		t.Fatalf("starting the copy: %v", err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: w.c1.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	copied := &cluster{WithWatch: c, name: "the copy of c1"}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	settings := copied.configuration(t)
	go func() {
		done <- product.Run(ctx, config, settings, product.Pod{Namespace: managerNamespace, IP: "127.0.0.1"})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running the manager of the copy: %v", err)
		}
	})
	return copied
}

// configuration returns that of the manager in the cluster, with ports that are free here.
func (c *cluster) configuration(t *testing.T) *configv1alpha1.Configuration {
	t.Helper()
	stored := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: managerNamespace, Name: managerName}
	if err := c.Get(t.Context(), key, stored); err != nil {
		t.Fatal(err)
	}
	settings, err := configv1alpha1.Load([]byte(stored.Data["config.yaml"]))
	if err != nil {
		t.Fatal(err)
	}
	settings.Metrics.BindAddress, settings.Health.BindAddress = "0", "0"
	settings.Webhook.Port = 19443
	settings.KubeletAPI.Enabled = new(false)
	return settings
}

// heldByOther returns an error unless a cluster says that another one acts in c2 as this source.
func (c *cluster) heldByOther(ctx context.Context) error {
	target := &v1alpha1.ClusterTarget{}
	if err := c.Get(ctx, types.NamespacedName{Name: "c2"}, target); err != nil {
		return err
	}
	connected := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionConnected)
	if connected == nil || connected.Reason != v1alpha1.ReasonHeldByOther {
		return fmt.Errorf("condition Connected is %+v", connected)
	}
	return nil
}

// A copy of c1 lacks the pods that c1 made since. It would end their delegates, and keep those that c1 has ended.
func TestACopyOfTheSourceFromABackupTouchesNothing(t *testing.T) {
	if _, err := os.Stat(localFile("clusters/c1/etcd")); err != nil {
		t.Fatalf("the data of c1's etcd is not where it is looked for: %v", err)
	}
	w := setUp(t)
	delegates := w.logDelegates(t)
	create(t, w.c1, w.webServer(4))
	w.quiet(t, 4)
	copied := w.copyOfC1(t)
	w.kubectl(t, "scale", "deployment/web", "--replicas=8")
	before := w.quiet(t, 8)
	eventually(t, "the copy to say that c1 acts in c2", copied.heldByOther)
	node := &corev1.Node{}
	if err := copied.Get(t.Context(), client.ObjectKey{Name: "admiralty-c2"}, node); err != nil {
		t.Fatal(err)
	}
	holds(t, time.Minute, "nothing is to change in c2", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err == nil {
			err = p.check(8)
		}
		return err
	})
	// Another leader of c1 takes over, and the copy does not.
	w.killLeader(t)
	eventually(t, "another leader to place pods", func(ctx context.Context) error {
		_, err := runKubectl(ctx, "--context", "c1", "-n", w.namespace, "scale", "deployment/web", "--replicas=10")
		return err
	})
	after := w.quiet(t, 10)
	for uid, name := range before.uids() {
		if after.uids()[uid] == "" {
			t.Errorf("pod %s is gone", name)
		}
	}
	if err := copied.heldByOther(t.Context()); err != nil {
		t.Error(err)
	}
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
}
