//go:build e2e && long

package e2e

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTwoSourcesCompeteForOneTarget has c1 and c2 both send pods to c2, which has room for half of them.
func TestTwoSourcesCompeteForOneTarget(t *testing.T) {
	w := setUp(t)
	w.mutual(t)
	giveSlots(t, w.c2, 6)
	template := withSlots(podTemplate("slot"), 1)
	for _, c := range w.all() {
		for i := range 6 {
			create(t, c, w.pod(fmt.Sprintf("slot-%d", i), template))
		}
	}
	running := w.runningProxies(t, 6)
	for _, pod := range running { // The others run as these end.
		c := w.c1
		if pod.Labels["of"] == "c2" {
			c = w.c2
		}
		if err := c.Delete(
			t.Context(),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}},
		); err != nil {
			t.Fatal(err)
		}
	}
	gone := map[string]bool{}
	for _, pod := range running {
		gone[string(pod.UID)] = true
	}
	for _, pod := range w.runningProxies(t, 6) {
		if gone[string(pod.UID)] {
			t.Errorf("pod %s runs, which was deleted", pod.Name)
		}
	}
}

// runningProxies waits until exactly so many proxies of both clusters run. All others of the twelve must report that
// they wait.
func (w *world) runningProxies(t *testing.T, count int) (running []corev1.Pod) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods to run", count), func(ctx context.Context) error {
		running = nil
		for _, c := range w.all() {
			list := &corev1.PodList{}
			if err := c.List(
				ctx,
				list,
				client.InNamespace(w.namespace),
				client.MatchingLabels{"app": "slot"},
			); err != nil {
				return err
			}
			for _, pod := range list.Items {
				if pod.DeletionTimestamp != nil {
					return fmt.Errorf("pod %s is being deleted", pod.Name)
				}
				if pod.Status.Phase == corev1.PodRunning {
					pod.Labels["of"] = c.name
					running = append(running, pod)
				} else if !hasCondition(&pod, corev1.PodScheduled, corev1.ConditionFalse) {
					return fmt.Errorf("pod %s of %s does not say that it waits", pod.Name, c.name)
				}
			}
		}
		if len(running) != count {
			return fmt.Errorf("%d run", len(running))
		}
		return nil
	})
	return running
}
