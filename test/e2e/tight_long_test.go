//go:build e2e && long

package e2e

import (
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
