//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// valuesFor upgrades the release in c1 with some values, and waits until a manager that has them leads. When the test
// ends, it goes back to the release of before.
func (w *world) valuesFor(t *testing.T, values string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if out, err := run(ctx, "helm", "--kube-context", "c1", "-n", releaseNamespace, "rollback", release,
			"--wait", "--timeout="+patience.String()); err != nil {
			t.Errorf("helm rollback: %v\n%s", err, out)
		}
	})
	w.replacesManagers(t, func() { w.c1.upgrade(t, values) })
}

// replacesManagers does something that replaces the managers of c1, and waits until a new one leads.
func (w *world) replacesManagers(t *testing.T, do func()) {
	t.Helper()
	before := w.c1.managers(t)
	do()
	eventually(t, "a new manager to lead", func(context.Context) error {
		leader := w.leader(t)
		if _, old := before[leader.UID]; old {
			return fmt.Errorf("%s does", leader.Name)
		}
		return nil
	})
}

func TestTheChartTurnsOffWhatKeepsDaemonSetsGoing(t *testing.T) {
	w := setUp(t)
	w.valuesFor(t, "daemonSets.keepOff=false,daemonSets.acknowledge=false")
	nodes := &corev1.NodeList{}
	if err := w.c1.List(t.Context(), nodes, client.HasLabels{v1alpha1.LabelNodeProvider}); err != nil {
		t.Fatal(err)
	}
	create(t, w.c1, w.daemonSet("daemon", nil))
	w.daemonsPending(t, "daemon", len(nodes.Items))
}

func TestTheChartKeepsLabelsAndTakesAnnotationsOver(t *testing.T) {
	w := setUp(t)
	w.valuesFor(t, "placement.keepLabels=true,placement.annotationsFromTargets={example.com/*}")
	create(t, w.c1, w.pod("web", inTarget("c2", podTemplate("web"))))
	w.reaches(t, "web", corev1.PodRunning)
	w.eventuallyPods(t, "web", "labels under their own keys", func(_, delegate *corev1.Pod) error {
		if delegate.Labels["app"] != "web" || delegate.Labels["multicluster.admiralty.io/app"] != "web" {
			return fmt.Errorf("labels %v", delegate.Labels)
		}
		return nil
	})
	w.c2.kubectl(t, "-n", w.namespace, "annotate", "pods", "-l", "app=web", "example.com/network=10.1.2.3",
		"example.org/other=kept")
	w.eventuallyPods(t, "web", "the annotation of the target", func(proxy, _ *corev1.Pod) error {
		if proxy.Annotations["example.com/network"] != "10.1.2.3" || proxy.Annotations["example.org/other"] != "" {
			return fmt.Errorf("annotations %v", proxy.Annotations)
		}
		return nil
	})
}
