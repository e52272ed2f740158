//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// A leader that starts while a target is dead knows only the target's objects in the source.
func TestALeaderThatBeginsWhileATargetIsDead(t *testing.T) {
	w := setUp(t)
	delegates := w.logDelegates(t)
	create(t, w.c1, w.webServer(6))
	for _, name := range []string{"forced", "deleted", "kept"} {
		create(t, w.c1, w.pod(name, inTarget("c2", quick(podTemplate(name)))))
	}
	w.quiet(t, 9)
	kept := w.reaches(t, "kept", corev1.PodRunning)

	heal := w.cutOffC2(t)
	w.kubectl(t, "delete", "pod", "forced", "--grace-period=0", "--force")
	w.killLeader(t)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionFalse, notReadyWithin)
	w.says(t, "c2", v1alpha1.ReasonUnreachable)
	w.kubectl(t, "delete", "pod", "deleted", "--wait=false")
	create(t, w.c1, w.pod("new", quick(podTemplate("new"))))
	w.running(t, "new", "admiralty-c1", 1, 30*time.Second)
	w.kubectl(t, "delete", "deployment", "web", "--wait=false")

	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	w.quiet(t, 2)
	if pod := w.reaches(t, "kept", corev1.PodRunning); pod.UID != kept.UID {
		t.Error("a pod that nobody deleted was replaced")
	}
	if err := delegates.doubled(); err != nil {
		t.Error(err)
	}
	managers(t.Context(), t, w.c1, 2)
}

// If the target's API server answers and its manager does not run, PodChaperons get no delegates.
func TestATargetWithoutAManagerKeepsNoPodWaiting(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	t.Cleanup(func() { scaleManager(context.WithoutCancel(t.Context()), t, w.c2, 2) })
	scaleManager(t.Context(), t, w.c2, 0)

	w.kubectl(t, "scale", "deployment/web", "--replicas=8")
	w.running(t, "web", "admiralty-c1", 8-before.byNode["admiralty-c2"], patience)
	scaleManager(t.Context(), t, w.c2, 2)
	w.quiet(t, 8)
}

func TestAVirtualNodeDeletedByHandComesBack(t *testing.T) {
	w := setUp(t)
	w.takesPods(t, "admiralty-c2") // A test before this one may have cut it off.
	w.isEmpty(t)
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)
	w.spread(t, before)
	w.endWell(t)
	was := w.nodeUID(t, "admiralty-c2")
	w.kubectl(t, "delete", "node", "admiralty-c2")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 30*time.Second)
	if w.nodeUID(t, "admiralty-c2") == was {
		t.Error("the node was not deleted")
	}
	same(t, before, w.quiet(t, 6))
	w.takesPods(t, "admiralty-c2")
	w.kubectl(t, "scale", "deployment/web", "--replicas=10")
	w.spread(t, w.quiet(t, 10))
}

func (w *world) nodeUID(t *testing.T, name string) string {
	t.Helper()
	node := &corev1.Node{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return string(node.UID)
}

// The target's own administrators may drain its nodes at any time.
func TestATargetsNodeThatIsDrainedSendsPodsElsewhere(t *testing.T) {
	w := setUp(t)
	w.takesPods(t, "admiralty-c2")
	w.isEmpty(t)
	create(t, w.c1, w.webServer(6))
	w.spread(t, w.quiet(t, 6))
	node, cpu := realNode(t, w.c2).Name, w.virtualNodeCPU(t, "admiralty-c2")
	t.Cleanup(func() {
		_, _ = runKubectl(context.WithoutCancel(t.Context()), "--context", "c2", "uncordon", node)
	})
	if out, err := runKubectl(
		t.Context(),
		"--context",
		"c2",
		"drain",
		node,
		"--pod-selector",
		"multicluster.admiralty.io/app=web",
		"--force",
		"--timeout=2m",
	); err != nil {
		t.Fatalf("draining %s: %v\n%s", node, err, out)
	}
	if p := w.quiet(t, 6); p.byNode["admiralty-c1"] != 6 {
		t.Errorf("after the drain: %v by virtual node", p.byNode)
	}
	if out, err := runKubectl(t.Context(), "--context", "c2", "uncordon", node); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	eventually(t, "admiralty-c2 to show the room of its node again", func(context.Context) error {
		if is := w.virtualNodeCPU(t, "admiralty-c2"); is != cpu {
			return fmt.Errorf("it has %dm CPU, had %dm", is, cpu)
		}
		return nil
	})
	w.kubectl(t, "scale", "deployment/web", "--replicas=10")
	if p := w.quiet(t, 10); p.byNode["admiralty-c2"] == 0 {
		t.Errorf("after the uncordon: %v by virtual node", p.byNode)
		w.explainAll(t, p)
	}
}

// A namespace that is deleted while a target is cut off goes at the latest when the target is back.
func TestANamespaceDeletedDuringAPartitionGoesAfterIt(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	w.quiet(t, 4)
	heal := w.cutOffC2(t)
	w.kubectl(t, "delete", "namespace", w.namespace, "--wait=false")
	within(t, patience, "the pods of c1 to be gone", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err == nil && p.byNode["admiralty-c1"] > 0 {
			err = fmt.Errorf("%v by virtual node", p.byNode)
		}
		return err
	})
	heal()
	gone(t, w.c1, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.nothingLeft(t)
}
