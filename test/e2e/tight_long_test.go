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

// TestANewLeaderUpdatesACopyDespiteAFullQuota has a leader that does not know that the copy exists. So it creates the
// copy first, which the quota of the target refuses.
func TestANewLeaderUpdatesACopyDespiteAFullQuota(t *testing.T) {
	w := setUp(t)
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "greeting"}
	create(t, w.c1, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"text": "hello"}})
	create(t, w.c1, w.pod("first", readsGreeting("first")))
	w.reaches(t, "first", corev1.PodRunning)
	eventuallyOutput(t, w, "hello", "exec", "first", "--", "/whoami", "cat", "/greeting/text")
	made := &corev1.ConfigMap{ObjectMeta: meta}
	if err := w.c2.Get(t.Context(), client.ObjectKeyFromObject(made), made); err != nil {
		t.Fatal(err)
	}

	w.fillsUp(t, w.c2, "count/configmaps")
	w.kubectl(t, "delete", "pod", "first")
	w.replacesManagers(t, func() {
		w.c1.kubectl(t, "-n", managerNamespace, "rollout", "restart", "deployment/"+managerName)
		w.c1.kubectl(t, "-n", managerNamespace, "rollout", "status", "deployment/"+managerName)
	})
	w.kubectl(t, "patch", "configmap", "greeting", "--type=merge", "-p", `{"data":{"text":"good-bye"}}`)
	create(t, w.c1, w.pod("second", readsGreeting("second")))
	w.reaches(t, "second", corev1.PodRunning)
	eventuallyOutput(t, w, "good-bye", "exec", "second", "--", "/whoami", "cat", "/greeting/text")
	now := &corev1.ConfigMap{ObjectMeta: meta}
	if err := w.c2.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil || now.UID != made.UID {
		t.Errorf("the copy is another one, or there is none: %v", err)
	}
}

// TestACopyThatSomebodyDeletesComesBack deletes a copy that a container needs each time it starts, and then ends the
// container.
func TestACopyThatSomebodyDeletesComesBack(t *testing.T) {
	w := setUp(t)
	meta := metav1.ObjectMeta{Namespace: w.namespace, Name: "greeting"}
	create(t, w.c1, &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"TEXT": "hello"}})
	template := inTarget("c2", podTemplate("greets"))
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "greeting"}},
	}}
	create(t, w.c1, w.pod("greets", template))
	w.reaches(t, "greets", corev1.PodRunning)

	must(t, w.c2.Delete(t.Context(), &corev1.Secret{ObjectMeta: meta}))
	// The container's end may break the stream.
	_, _ = runKubectl(t.Context(), "--context", "c1", "-n", w.namespace, "exec", "greets", "--", "/whoami", "kill", "1")
	eventually(t, "the container to run again", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := w.c1.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "greets"}, pod)
		if err == nil && (len(pod.Status.ContainerStatuses) != 1 || pod.Status.ContainerStatuses[0].RestartCount == 0 ||
			!ready(pod)) {
			err = fmt.Errorf("its containers: %+v", pod.Status.ContainerStatuses)
		}
		return err
	})
	must(t, w.c2.Get(t.Context(), client.ObjectKeyFromObject(&corev1.Secret{ObjectMeta: meta}), &corev1.Secret{}))
}
