//go:build e2e && long

package e2e

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const enabled = `{"metadata":{"labels":{"` +
	v1alpha1.LabelEnabledNamespace + `":"` + v1alpha1.LabelEnabledNamespaceValue + `"}}}`

// mutual makes both clusters targets of c2, too, and enables the namespace in c2, until the test ends.
func (w *world) mutual(t *testing.T) {
	t.Helper()
	if err := w.c2.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}},
		client.RawPatch("application/merge-patch+json", []byte(enabled))); err != nil {
		t.Fatal(err)
	}
	for name, flags := range map[string][]string{"c1": {"--target-context", "c1"}, "c2": nil} {
		t.Cleanup(func() {
			args := append([]string{"disconnect", name, "--source-context", "c2"}, flags...)
			if out, err := run(context.WithoutCancel(t.Context()), "kubectl-multicluster", args...); err != nil {
				t.Errorf("kubectl multicluster %v: %v\n%s", args, err, out)
			}
		})
	}
	w.connect(t, "c1", "c2", "--target-context", "c1")
	w.connect(t, "c2", "c2", "--self")
}

// virtualNodeCPU returns the CPU capacity of a virtual node of c1, in thousandths.
func (w *world) virtualNodeCPU(t *testing.T, name string) int64 {
	t.Helper()
	node := &corev1.Node{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node.Status.Capacity.Cpu().MilliValue()
}

// Both clusters are sources and targets, of each other and of themselves. Their pods have the same names in the same
// namespace. Only the identity of the source shows the owner of an object.
func TestTwoSourcesDoNotTouchEachOthersPods(t *testing.T) {
	w := setUp(t)
	cpu := w.virtualNodeCPU(t, "admiralty-c1")
	w.mutual(t)
	create(t, w.c1, w.webServer(4))
	create(t, w.c2, w.webServer(4))
	before := w.quiet(t, 8)
	if got := w.virtualNodeCPU(t, "admiralty-c1"); got != cpu {
		t.Errorf("with a virtual node of its own c1 has %dm CPU, had %dm", got, cpu)
	}

	for _, c := range w.all() { // New leaders compare everything.
		if out, err := runKubectl(
			t.Context(),
			"--context",
			c.name,
			"-n",
			managerNamespace,
			"rollout",
			"restart",
			"deployment",
			managerName,
		); err != nil {
			t.Fatalf("restarting the manager of %s: %v\n%s", c.name, err, out)
		}
		if out, err := runKubectl(
			t.Context(),
			"--context",
			c.name,
			"-n",
			managerNamespace,
			"rollout",
			"status",
			"deployment",
			managerName,
		); err != nil {
			t.Fatalf("restarting the manager of %s: %v\n%s", c.name, err, out)
		}
	}
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	holds(t, 20*time.Second, "all are to stay", func(ctx context.Context) error {
		p, err := w.placement(ctx)
		if err != nil {
			return err
		}
		return p.check(8)
	})
	same(t, before, w.quiet(t, 8))

	if out, err := runKubectl(
		t.Context(),
		"--context",
		"c2",
		"-n",
		w.namespace,
		"delete",
		"deployment",
		"web",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	after := w.quiet(t, 4)
	for uid, name := range after.uids() {
		if before.uids()[uid] == "" {
			t.Errorf("pod %s of c1 was replaced", name)
		}
	}
}

func TestADisconnectedSourceTakesOnlyItsOwnAlong(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	create(t, w.c2, w.webServer(4))
	t.Run("connected", func(t *testing.T) { // It disconnects c2 in the end.
		w.mutual(t)
		if out, err := runKubectl(
			t.Context(),
			"--context",
			"c2",
			"-n",
			w.namespace,
			"rollout",
			"restart",
			"deployment/web",
		); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		w.quiet(t, 8)
	})
	within(t, patience, "c2's virtual nodes to be gone", func(ctx context.Context) error {
		return goneNow(ctx, w.c2, "admiralty-c1", "admiralty-c2")
	})
	if out, err := runKubectl(
		t.Context(),
		"--context",
		"c2",
		"-n",
		w.namespace,
		"scale",
		"deployment/web",
		"--replicas=0",
	); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	same(t, before, w.quiet(t, 4))
}

func TestUninstallingLeavesTargetsThatCanBeDeleted(t *testing.T) {
	w := setUp(t)
	w.endWell(t)
	w.c1.uninstall(t)
	for _, kind := range []string{"clustertargets", "clustersources", "clustersummaries", "podchaperons"} {
		out, err := runKubectl(
			t.Context(),
			"--context",
			"c1",
			"get",
			kind,
			"-A",
			"-o",
			"jsonpath={.items[*].metadata.finalizers}",
		)
		if err != nil || out != "" {
			t.Errorf("%s have finalizers %q (%v)", kind, out, err)
		}
	}
}
