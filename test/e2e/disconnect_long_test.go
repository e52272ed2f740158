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

// connect runs kubectl multicluster connect, which creates a new token each time.
func (w *world) connect(t *testing.T, name, source string, flags ...string) {
	t.Helper()
	args := append([]string{"connect", name, "--source-context", source}, flags...)
	if out, err := run(t.Context(), "kubectl-multicluster", args...); err != nil {
		t.Fatalf("kubectl multicluster %v: %v\n%s", args, err, out)
	}
}

// deleteTarget deletes the ClusterTarget c2. The function returned makes it again, and so does the end of the test.
func (w *world) deleteTarget(t *testing.T) (again func()) {
	t.Helper()
	w.endWell(t)
	target := &v1alpha1.ClusterTarget{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Name: "c2"}, target); err != nil {
		t.Fatal(err)
	}
	fresh := func() *v1alpha1.ClusterTarget {
		return &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}, Spec: target.Spec}
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		_ = w.c1.Create(ctx, fresh()) // It may exist.
	})
	if err := w.c1.Delete(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := w.c1.Create(t.Context(), fresh()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADeletedTargetLeavesNothingBehind(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(8))
	w.spread(t, w.quiet(t, 8))

	again := w.deleteTarget(t)
	gone(t, w.c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}})
	if p := w.quiet(t, 8); p.byNode["admiralty-c1"] != 8 {
		t.Errorf("without c2: %v by virtual node", p.byNode)
	}

	again()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	w.kubectl(t, "scale", "deployment/web", "--replicas=12")
	if p := w.quiet(t, 12); p.byNode["admiralty-c2"] == 0 {
		t.Errorf("with c2 again: %v by virtual node", p.byNode)
	}
}

func TestADeletedTargetThatCannotBeReachedBlocksNothing(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(8))
	before := w.quiet(t, 8)
	heal := w.cutOffC2(t)

	again := w.deleteTarget(t)
	gone(t, w.c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-c2"}})
	w.running(t, "web", "admiralty-c1", 8, patience)
	within(t, patience, "the proxies on the node that is gone to go", func(ctx context.Context) error {
		proxies, _, err := w.pods(ctx, w.c1)
		if err == nil && len(proxies) != 8 {
			err = fmt.Errorf("there are %d proxies", len(proxies))
		}
		return err
	})

	again()
	w.says(t, "c2", v1alpha1.ReasonUnreachable)
	if _, left, err := w.pods(t.Context(), w.c2); err != nil || len(left) != len(before.delegates["c2"]) {
		t.Errorf("c2 has %d delegates (%v), want those that it had", len(left), err)
	}
	heal()
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, readyWithin)
	if p := w.quiet(t, 8); len(p.delegates["c2"]) != 0 {
		t.Errorf("c2 still has %d delegates", len(p.delegates["c2"]))
	}
}

func TestCredentialsChangeAtRunTime(t *testing.T) {
	w := setUp(t)
	runs := w.managerRuns(t)
	create(t, w.c1, w.webServer(6))
	before := w.quiet(t, 6)

	w.connect(t, "c2", "c1", "--target-context", "c2")
	holds(t, 20*time.Second, "new credentials do not disturb the node", func(ctx context.Context) error {
		return w.nodeIs(ctx, "admiralty-c2", corev1.ConditionTrue)
	})
	same(t, before, w.quiet(t, 6))

	w.endWell(t)
	w.withdrawTokens(t)
	w.says(t, "c2", v1alpha1.ReasonUnauthorized)
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionUnknown, notReadyWithin)
	w.kubectl(t, "scale", "deployment/web", "--replicas=8")
	w.running(t, "web", "admiralty-c1", before.byNode["admiralty-c1"]+2, 30*time.Second)

	w.connect(t, "c2", "c1", "--target-context", "c2")
	w.nodeBecomes(t, "admiralty-c2", corev1.ConditionTrue, 30*time.Second)
	after := w.quiet(t, 8).uids()
	for uid, name := range before.uids() {
		if after[uid] == "" {
			t.Errorf("pod %s was replaced", name)
		}
	}
	w.kubectl(t, "scale", "deployment/web", "--replicas=12")
	w.quiet(t, 12)
	for name, count := range w.managerRuns(t) {
		if was, ok := runs[name]; !ok || was != count {
			t.Errorf("manager %s was started again", name)
		}
	}
}

// withdrawTokens ends all tokens in c2 of c1's service account. The manager of c2 creates the account again.
func (w *world) withdrawTokens(t *testing.T) {
	t.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerNamespace, Name: "multicluster-source-c1"},
	}
	if err := w.c2.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
}

func TestAPodChaperonDeletedByHandIsReplaced(t *testing.T) {
	w := setUp(t)
	create(t, w.c1, w.webServer(4))
	before := w.quiet(t, 4)
	victim := before.proxies[0]
	where, delegate := w.delegateOf(t, &victim)
	if err := where.Delete(
		t.Context(),
		&v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{Namespace: delegate.Namespace, Name: delegate.Name}},
	); err != nil {
		t.Fatal(err)
	}
	within(t, 30*time.Second, "the proxy to go", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := w.c1.Get(ctx, client.ObjectKeyFromObject(&victim), pod)
		if err == nil && pod.UID == victim.UID {
			return fmt.Errorf("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	w.quiet(t, 4)
}
