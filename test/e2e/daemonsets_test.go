//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// daemonSet returns a DaemonSet of pods that are not elected, and that tolerate everything.
func (w *world) daemonSet(name string, annotations map[string]string) *appsv1.DaemonSet {
	template := podTemplate(name)
	template.Annotations = nil
	template.Spec.TerminationGracePeriodSeconds = new(int64(1))
	template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: annotations},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template,
		},
	}
}

func TestDaemonSetsAreNotHeldUp(t *testing.T) {
	w := setUp(t)
	nodes := &corev1.NodeList{}
	if err := w.c1.List(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
	own := 0
	for i := range nodes.Items {
		if nodes.Items[i].Labels[v1alpha1.LabelNodeProvider] != v1alpha1.LabelNodeProviderValue {
			own++
		}
	}
	// As if it had existed before the chart was installed.
	create(t, w.c1, w.daemonSet("earlier", map[string]string{v1alpha1.AnnotationKeepOff: "false"}))
	create(t, w.c1, w.daemonSet("new", nil))
	refused := w.daemonSet("refused", map[string]string{v1alpha1.AnnotationKeepOff: "false"})
	refused.Spec.Template.Annotations = map[string]string{v1alpha1.AnnotationAcknowledge: "false"}
	create(t, w.c1, refused)
	w.daemonsAvailable(t, "earlier", len(nodes.Items))
	w.daemonsAvailable(t, "new", own)
	w.daemonsPending(t, "refused", len(nodes.Items)-own)

	w.kubectl(t, "set", "env", "daemonset/earlier", "CHANGED=1")
	w.kubectl(t, "rollout", "status", "daemonset/earlier", "--timeout=2m")
	w.daemonsAvailable(t, "earlier", len(nodes.Items))
	w.kubectl(t, "delete", "daemonset", "earlier", "new", "refused")
	eventually(t, "the pods to be gone", func(ctx context.Context) error {
		pods := &corev1.PodList{}
		if err := w.c1.List(ctx, pods, client.InNamespace(w.namespace)); err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("there are %d pods: %w", len(pods.Items), err)
		}
		return nil
	})
}

// daemonsAvailable waits until a DaemonSet has so many pods, all of them available and up to date.
func (w *world) daemonsAvailable(t *testing.T, name string, want int) {
	t.Helper()
	eventually(t, "the DaemonSet "+name+" to be available", func(ctx context.Context) error {
		d := &appsv1.DaemonSet{}
		if err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, d); err != nil {
			return err
		}
		is := d.Status
		if is.ObservedGeneration != d.Generation || int(is.DesiredNumberScheduled) != want ||
			int(is.NumberAvailable) != want || int(is.UpdatedNumberScheduled) != want {
			return fmt.Errorf("want %d pods, the status is %v", want, is)
		}
		return nil
	})
}

// daemonsPending waits until a DaemonSet has so many pods on virtual nodes, which say why they are Pending.
func (w *world) daemonsPending(t *testing.T, name string, want int) {
	t.Helper()
	what := fmt.Sprintf("%d pods of %s to be Pending on virtual nodes", want, name)
	eventually(t, what, func(ctx context.Context) error {
		pods := &corev1.PodList{}
		err := w.c1.List(ctx, pods, client.InNamespace(w.namespace), client.MatchingLabels{"app": name})
		if err != nil {
			return err
		}
		pending := 0
		for i := range pods.Items {
			status := pods.Items[i].Status
			if status.Phase == corev1.PodPending && status.Reason == "NotElected" {
				pending++
			}
		}
		if pending != want {
			return fmt.Errorf("there are %d", pending)
		}
		return nil
	})
}
