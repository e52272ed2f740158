//go:build e2e && long

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// uninstallWithin is less than Helm's own time-out.
const uninstallWithin = 5 * time.Minute

// helm runs helm for the cluster's release namespace.
func (c *cluster) helm(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	out, err := run(ctx, "helm", append([]string{"--kube-context", c.name, "-n", releaseNamespace}, args...)...)
	if err != nil {
		t.Fatalf("helm %v in %s: %v\n%s", args, c.name, err, out)
	}
	return out
}

// uninstall removes the chart from the cluster until the test ends, or again is called.
func (c *cluster) uninstall(t *testing.T, flags ...string) (again func()) {
	t.Helper()
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := c.helm(t.Context(), t, "get", "values", release, "-o", "yaml")
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	install := func(ctx context.Context) {
		t.Helper()
		c.helm(ctx, t, "upgrade", "--install", release, localFile("../charts/multicluster-scheduler"), "-f", values,
			"--wait", "--timeout", "3m")
	}
	t.Cleanup(func() { install(context.WithoutCancel(t.Context())) })
	ctx, cancel := context.WithTimeout(t.Context(), uninstallWithin)
	defer cancel()
	start := time.Now()
	t.Logf("%s\nuninstalling in %s took %s", c.helm(ctx, t, append([]string{"uninstall", release}, flags...)...),
		c.name, time.Since(start).Round(time.Second))
	return func() {
		t.Helper()
		install(t.Context())
	}
}

// nothingOfOurs waits until the cluster has no virtual node, no proxy on one, no webhook and no Job of ours.
func (c *cluster) nothingOfOurs(t *testing.T) {
	t.Helper()
	within(t, 3*time.Minute, "nothing of ours to be left in "+c.name, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		nodes := client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
		mutating := &admissionregistrationv1.MutatingWebhookConfigurationList{}
		validating := &admissionregistrationv1.ValidatingWebhookConfigurationList{}
		ours := client.MatchingLabels{"app.kubernetes.io/instance": release}
		virtual := &corev1.NodeList{}
		err := errors.Join(c.List(ctx, virtual, nodes), c.List(ctx, mutating, ours), c.List(ctx, validating, ours),
			c.List(ctx, pods, client.MatchingFields{"spec.schedulerName": v1alpha1.SchedulerName}))
		if err != nil {
			return err
		}
		managers := &corev1.PodList{}
		if err := c.List(ctx, managers, client.InNamespace(releaseNamespace), ours); err != nil {
			return err
		}
		left := len(virtual.Items) + len(mutating.Items) + len(validating.Items) + len(pods.Items) + len(managers.Items)
		if left > 0 {
			return fmt.Errorf("%d virtual nodes, %d and %d webhooks, %d proxies, %d pods of the release",
				len(virtual.Items), len(mutating.Items), len(validating.Items), len(pods.Items), len(managers.Items))
		}
		return nil
	})
}

// ordinaryPods waits until so many pods of the Deployment web run in c1 as ordinary pods.
func (w *world) ordinaryPods(t *testing.T, count int) {
	t.Helper()
	within(t, 3*time.Minute, "the pods to run in c1 as ordinary ones", func(ctx context.Context) error {
		pods, _, err := w.pods(ctx, w.c1)
		if err != nil {
			return err
		}
		running := 0
		for i := range pods {
			ordinary := pods[i].Spec.SchedulerName != v1alpha1.SchedulerName
			if ordinary && ready(&pods[i]) && pods[i].DeletionTimestamp == nil {
				running++
			}
		}
		if running != count || len(pods) != count {
			return fmt.Errorf("%d of %d pods do", running, len(pods))
		}
		return nil
	})
}

// delegatesIn waits until the cluster has so many delegates and PodChaperons in the namespace.
func (w *world) delegatesIn(t *testing.T, c *cluster, count int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d delegates in %s", count, c.name), func(ctx context.Context) error {
		_, delegates, err := w.pods(ctx, c)
		if err != nil {
			return err
		}
		chaperons := &v1alpha1.PodChaperonList{}
		if err := c.List(ctx, chaperons, client.InNamespace(w.namespace)); err != nil {
			return err
		}
		if len(delegates) != count || len(chaperons.Items) != count {
			return fmt.Errorf("there are %d, and %d PodChaperons", len(delegates), len(chaperons.Items))
		}
		return nil
	})
}

// deleteNamespaces deletes the test's namespace in both clusters. Nothing holds it.
func (w *world) deleteNamespaces(t *testing.T) {
	t.Helper()
	for _, c := range w.all() {
		if out, err := runKubectl(t.Context(), "--context", c.name, "delete", "namespace", w.namespace,
			"--timeout=3m"); err != nil {
			t.Errorf("deleting the namespace in %s: %v\n%s", c.name, err, out)
		}
	}
}

func TestUninstallOfTheSourceLetsPodsRunThere(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(6))
	w.quiet(t, 6)
	w.c1.uninstall(t)
	w.c1.nothingOfOurs(t)
	w.delegatesIn(t, w.c2, 0)
	w.ordinaryPods(t, 6)
	w.deleteNamespaces(t)
}

func TestUninstallOfTheSourceWhileATargetIsDown(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)
	heal := w.cutOffC2(t)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	again := w.c1.uninstall(t)
	w.c1.nothingOfOurs(t)
	w.ordinaryPods(t, 6)
	heal()
	w.delegatesIn(t, w.c2, len(before.delegates["c2"])) // Nobody looks after them, ...
	again()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 2*time.Minute)
	w.delegatesIn(t, w.c2, 0) // ... until the source is installed again.
}

func TestUninstallOfTheSourceThatLeavesPods(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	t.Cleanup(func() { w.c1.upgradeIn(context.WithoutCancel(t.Context()), t, "uninstall.pods=end") })
	w.c1.upgrade(t, "uninstall.pods=leave")
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)
	again := w.c1.uninstall(t)
	w.c1.nothingOfOurs(t)
	after := w.quietDelegates(t, "c2")
	for _, delegate := range before.delegates["c2"] {
		if !after[string(delegate.UID)] {
			t.Errorf("delegate %s was ended", delegate.Name)
		}
	}
	again()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 2*time.Minute)
	w.delegatesIn(t, w.c2, 0) // They have no proxies.
}

// quietDelegates returns the UIDs of the delegates in a cluster that are not being deleted.
func (w *world) quietDelegates(t *testing.T, name string) map[string]bool {
	t.Helper()
	p, err := w.placement(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uids := map[string]bool{}
	for i := range p.delegates[name] {
		if delegate := &p.delegates[name][i]; delegate.DeletionTimestamp == nil && ready(delegate) {
			uids[string(delegate.UID)] = true
		}
	}
	return uids
}

func TestUninstallOfATargetSendsPodsElsewhere(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(6))
	if p := w.quiet(t, 6); p.byNode["admiralty-c2"] == 0 {
		t.Fatalf("no pod runs in c2: %v", p.byNode)
	}
	again := w.c2.uninstall(t)
	w.delegatesIn(t, w.c2, 0)
	if p := w.quiet(t, 6); p.byNode["admiralty-c1"] != 6 {
		t.Errorf("without c2: %v by virtual node", p.byNode)
	}
	again()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 2*time.Minute)
	w.takesPods(t, "admiralty-c2") // Its manager was silent.
	w.kubectl(t, "scale", "deployment/web", "--replicas=12")
	if p := w.quiet(t, 12); p.byNode["admiralty-c2"] == 0 {
		t.Errorf("with c2 again: %v by virtual node", p.byNode)
	}
}

func TestUninstallOfATargetWhileTheSourceIsDown(t *testing.T) {
	w := setUp(t)
	w.endWell(t, "start-apiserver", "c1")
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)
	if before.byNode["admiralty-c2"] == 0 {
		t.Fatalf("no pod runs in c2: %v", before.byNode)
	}
	clusters(t.Context(), t, "stop-apiserver", "c1")
	again := w.c2.uninstall(t)
	w.delegatesIn(t, w.c2, 0)
	clusters(t.Context(), t, "start-apiserver", "c1")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionUnknown, 2*time.Minute)
	p, err := w.placement(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, proxy := range before.proxies { // Nobody tells the source that the target does not come back, ...
		if p.uids()[proxy.UID] == "" {
			t.Errorf("pod %s was replaced", proxy.Name)
		}
	}
	t.Cleanup(func() { connectAll(context.WithoutCancel(t.Context()), t, "kubectl-multicluster") })
	if err := w.c1.Delete(t.Context(), &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}); err != nil {
		t.Fatal(err)
	}
	gone(t, w.c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}})
	w.running(t, "web", "admiralty-c1", 6, 4*time.Minute) // ... until somebody does.
	again()
}

func TestUninstallOfBothSidesInAnyOrder(t *testing.T) {
	for name, order := range map[string][]int{"the source first": {0, 1}, "the target first": {1, 0}} {
		t.Run(name, func(t *testing.T) {
			w := setUp(t)
			w.endWell(t)
			create(t, w.c1, w.webServer(6))
			w.quiet(t, 6)
			for _, i := range order {
				w.all()[i].uninstall(t)
			}
			w.c1.nothingOfOurs(t)
			w.delegatesIn(t, w.c2, 0)
			w.ordinaryPods(t, 6)
			w.deleteNamespaces(t)
		})
	}
}

func TestUninstallWithoutItsJobIsRepairedByAnInstallation(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)
	again := w.c1.uninstall(t, "--no-hooks")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionUnknown, 2*notReadyWithin)
	if err := w.c1.Delete(t.Context(), &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connectAll(context.WithoutCancel(t.Context()), t, "kubectl-multicluster") })
	again()
	gone(t, w.c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}})
	w.running(t, "web", "admiralty-c1", 6, 4*time.Minute)
	w.connect(t, "c2", "c1", "--target-context", "c2")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 2*time.Minute)
	after := w.quiet(t, 6).uids()
	for _, proxy := range before.proxies {
		if proxy.Spec.NodeName == "admiralty-c1" && after[proxy.UID] == "" {
			t.Errorf("pod %s was replaced, although its target stayed", proxy.Name)
		}
	}
}
