//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// says waits until a ClusterTarget's condition Connected has the reason, and returns the condition's message.
func (w *world) says(t *testing.T, name, reason string) string {
	t.Helper()
	message := ""
	eventually(t, fmt.Sprintf("ClusterTarget %s to say %s", name, reason), func(ctx context.Context) error {
		target := &v1alpha1.ClusterTarget{}
		if err := w.c1.Get(ctx, client.ObjectKey{Name: name}, target); err != nil {
			return err
		}
		condition := meta.FindStatusCondition(target.Status.Conditions, v1alpha1.ConditionConnected)
		if condition == nil || condition.Reason != reason {
			return fmt.Errorf("it says %+v", target.Status.Conditions)
		}
		message = condition.Message
		return nil
	})
	return message
}

const deadKubeconfig = `apiVersion: v1
kind: Config
current-context: dead
contexts: [{name: dead, context: {cluster: dead, user: dead}}]
clusters: [{name: dead, cluster: {server: "https://127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: dead, user: {token: dead}}]
`

func TestABrokenTargetSaysWhyAndDisturbsNobody(t *testing.T) {
	w := setUp(t)
	broken := &v1alpha1.ClusterTarget{
		ObjectMeta: metav1.ObjectMeta{Name: "broken"},
		Spec: v1alpha1.ClusterTargetSpec{KubeconfigSecret: &v1alpha1.ClusterKubeconfigSecret{
			Namespace: w.namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "nowhere"},
		}},
	}
	create(t, w.c1, broken)
	if message := w.says(t, "broken", v1alpha1.ReasonSecretNotFound); !strings.Contains(message, "nowhere") {
		t.Errorf("the message does not name the Secret: %s", message)
	}
	create(t, w.c1, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "nowhere", Namespace: w.namespace},
		Data:       map[string][]byte{"config": []byte(deadKubeconfig)},
	})
	w.says(t, "broken", v1alpha1.ReasonUnreachable)

	w.takePods(t)
	create(t, w.c1, w.webServer(6))
	w.spread(t, w.quiet(t, 6))
	for _, name := range []string{"c1", "c2"} {
		w.says(t, name, v1alpha1.ReasonConnected)
	}

	if err := w.c1.Delete(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	gone(t, w.c1, &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "broken"}})
	gone(t, w.c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "admiralty-broken"}})
}

func TestTargetsAreValidated(t *testing.T) {
	w := setUp(t)
	for name, spec := range map[string]v1alpha1.ClusterTargetSpec{
		"set exactly one of self: true and kubeconfigSecret": {},
		"excludedLabelsRegexp":                               {Self: true, ExcludedLabelsRegexp: "("},
	} {
		err := w.c1.Create(
			t.Context(),
			&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "invalid"}, Spec: spec},
		)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("creating a ClusterTarget with %+v: got %v, want an error with %q", spec, err, name)
		}
	}
}

func TestANamespacedTargetTakesThePodsOfItsNamespace(t *testing.T) {
	w := setUp(t)
	connect := func(args ...string) {
		out, err := run(t.Context(), "kubectl-multicluster", args...)
		if err != nil {
			t.Fatalf("kubectl multicluster %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	connect("connect", "mine", "--namespaced", "-n", w.namespace, "--source-context", "c1", "--target-context", "c2")
	t.Cleanup(func() {
		out, err := run(
			context.WithoutCancel(t.Context()),
			"kubectl-multicluster",
			"disconnect",
			"mine",
			"--namespaced",
			"-n",
			w.namespace,
			"--source-context",
			"c1",
			"--target-context",
			"c2",
		)
		if err != nil {
			t.Errorf("disconnecting: %v\n%s", err, out)
		}
	})

	target := &v1alpha1.Target{}
	if err := w.c1.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "mine"}, target); err != nil {
		t.Fatal(err)
	}
	template := podTemplate("mine")
	const selector = "nodeSelector: {multicluster.admiralty.io/target-name: mine}"
	template.Annotations[v1alpha1.AnnotationProxyConstraints] = selector
	create(t, w.c1, w.pod("mine", template))
	if proxy := w.reaches(t, "mine", corev1.PodRunning); proxy.Spec.NodeName != target.Status.NodeName {
		t.Errorf("the pod went to %s, want %s", proxy.Spec.NodeName, target.Status.NodeName)
	}

	other := setUp(t)
	create(t, other.c1, other.pod("theirs", template))
	eventually(t, "the pod of another namespace to say why it is pending", func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := other.c1.Get(ctx, client.ObjectKey{Namespace: other.namespace, Name: "theirs"}, pod); err != nil {
			return err
		}
		if pod.Spec.NodeName != "" {
			t.Fatalf("it was bound to %s", pod.Spec.NodeName)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodScheduled && strings.Contains(c.Message, "namespace") {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", pod.Status.Conditions)
	})
}
