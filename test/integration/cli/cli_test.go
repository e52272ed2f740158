package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func mustRun(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	code, out, errOut := command(t, kubeconfig, args...)
	if code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errOut)
	}
	return out
}

func mustFail(t *testing.T, want, kubeconfig string, args ...string) {
	t.Helper()
	code, out, errOut := command(t, kubeconfig, args...)
	if code == 0 || !strings.Contains(errOut, want) {
		t.Errorf("%s: exit code %d, want a failure that says %q\n%s%s", strings.Join(args, " "), code, want, out, errOut)
	}
}

func tokens(t *testing.T, namespace string) map[string]string {
	t.Helper()
	secrets := &corev1.SecretList{}
	if err := c2.Client.List(t.Context(), secrets, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, secret := range secrets.Items {
		found[secret.Name] = string(secret.Data[corev1.ServiceAccountTokenKey])
	}
	return found
}

func exists(t *testing.T, cluster *apiserver.Cluster, object client.Object) bool {
	t.Helper()
	err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

func TestConnectStatusDisconnect(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	connectForTheFirstTime(t, path)
	t.Run("status shows it", func(t *testing.T) {
		if out := mustRun(t, path, "status"); !strings.Contains(out, "c2     -           True") {
			t.Errorf("output:\n%s", out)
		}
	})
	t.Run("connecting again renews the token and deletes the earlier one", func(t *testing.T) {
		before := tokens(t, "admiralty")
		mustRun(t, path, "connect", "c2", "--target-context", "c2")
		after := tokens(t, "admiralty")
		if len(before) != 1 || len(after) != 1 {
			t.Fatalf("there were %d tokens and are %d, want 1 and 1", len(before), len(after))
		}
		for name := range after {
			if _, kept := before[name]; kept {
				t.Error("the token is the earlier one")
			}
		}
		if _, err := login(t.Context(), secretOfC2()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a second target of the same cluster has a token of its own", func(t *testing.T) {
		mustRun(t, path, "connect", "again", "--target-context", "c2")
		if n := len(tokens(t, "admiralty")); n != 2 {
			t.Errorf("there are %d tokens, want 2", n)
		}
		out := mustRun(t, path, "disconnect", "again", "--target-context", "c2")
		if !strings.Contains(out, "ClusterSource c1 kept") || len(tokens(t, "admiralty")) != 1 {
			t.Errorf("the first connection was touched:\n%s", out)
		}
	})
	t.Run("disconnect leaves nothing of ours", func(t *testing.T) { disconnectEntirely(t, path) })
}

func secretOfC2() client.ObjectKey { return client.ObjectKey{Namespace: "admiralty", Name: "c2"} }

func connectForTheFirstTime(t *testing.T, path string) {
	t.Helper()
	code, out, errOut := command(t, path, "connect", "c2", "--target-context", "c2")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	for _, want := range []string{"c2: ClusterSource c1 applied", "c1: Secret admiralty/c2 applied", "c1: virtual node admiralty-c2 is ready", "kubectl --context c1 label namespace"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if !strings.Contains(errOut, "use --server") {
		t.Errorf("nothing warns of the loopback address:\n%s", errOut)
	}

	asSource, err := login(t.Context(), secretOfC2())
	if err != nil {
		t.Fatal(err)
	}
	if err := asSource.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the source lists Secrets of the target: %v", err)
	}
}

func disconnectEntirely(t *testing.T, path string) {
	t.Helper()
	ours, others := chaperonOf(t, "c2"), chaperonOf(t, "another")
	mustRun(t, path, "disconnect", "c2", "--target-context", "c2")
	if exists(t, c2, ours) && ours.DeletionTimestamp.IsZero() {
		t.Error("what runs in the target goes on")
	}
	if !exists(t, c2, others) || !others.DeletionTimestamp.IsZero() {
		t.Error("what runs there by another connection was deleted")
	}
	for cluster, objects := range map[*apiserver.Cluster][]client.Object{
		c1: {&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "c2"}}},
		c2: {&v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}},
	} {
		for _, object := range objects {
			if exists(t, cluster, object) {
				t.Errorf("%T %q is left in %s", object, object.GetName(), cluster.Name)
			}
		}
	}
	if n := len(tokens(t, "admiralty")); n != 0 {
		t.Errorf("%d tokens are left", n)
	}
	if out := mustRun(t, path, "disconnect", "c2", "--target-context", "c2"); !strings.Contains(out, "there is no ClusterTarget c2") {
		t.Errorf("output of the second time:\n%s", out)
	}
}

// chaperonOf makes in c2 what the source c1 has there by its ClusterTarget of the name.
func chaperonOf(t *testing.T, target string) *v1alpha1.PodChaperon {
	t.Helper()
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}}
	if !exists(t, c1, system) {
		t.Fatal("c1 has no namespace kube-system")
	}
	chaperon := &v1alpha1.PodChaperon{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "delegate-of-" + target, Labels: map[string]string{
			v1alpha1.LabelParentClusterID: string(system.UID),
			v1alpha1.LabelTargetHash:      translate.TargetHash(client.ObjectKey{Name: target}),
		}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	createIfAbsent(t, c2, chaperon)
	return chaperon
}

func TestConnectOneNamespace(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	for _, cluster := range []*apiserver.Cluster{c1, c2} {
		createIfAbsent(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}})
	}
	mustRun(t, path, "connect", "c2", "--target-context", "c2", "--namespaced", "--namespace", "team-a")
	if !exists(t, c2, &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c1"}}) {
		t.Error("there is no Source")
	}
	asSource, err := login(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "c2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := asSource.List(t.Context(), &v1alpha1.PodChaperonList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the source lists PodChaperons of every namespace: %v", err)
	}
	mustRun(t, path, "disconnect", "c2", "--target-context", "c2", "--namespaced", "--namespace", "team-a")
	if exists(t, c2, &v1alpha1.Source{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "c1"}}) {
		t.Error("the Source is left")
	}
}

func TestConnectItselfAndThenAnother(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustRun(t, path, "connect", "changing", "--self")
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "changing"}}
	if !exists(t, c1, target) || !target.Spec.Self {
		t.Fatalf("spec is %+v", target.Spec)
	}
	mustRun(t, path, "connect", "changing", "--target-context", "c2")
	target = &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "changing"}}
	if !exists(t, c1, target) || target.Spec.Self || target.Spec.KubeconfigSecret == nil {
		t.Errorf("spec is %+v", target.Spec)
	}
}

func TestConnectWithATokenThatExpires(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	createIfAbsent(t, c2, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "kube-root-ca.crt"},
		Data:       map[string]string{"ca.crt": string(c2.Config.CAData)},
	})
	before := len(tokens(t, "admiralty"))
	mustRun(t, path, "connect", "expiring", "--target-context", "c2", "--token-duration", "1h")
	if after := len(tokens(t, "admiralty")); after != before {
		t.Errorf("there were %d token Secrets and are %d", before, after)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)

	t.Run("an address that leads nowhere", func(t *testing.T) {
		mustFail(t, "ClusterTarget nowhere did not become Connected in time: Unreachable: ", path,
			"connect", "nowhere", "--target-context", "c2", "--server", "https://127.0.0.1:1", "--timeout", "10s")
		if out := mustRun(t, path, "status"); !strings.Contains(out, "ClusterTarget nowhere is not connected (Unreachable)") {
			t.Errorf("status:\n%s", out)
		}
	})
	t.Run("a mistyped context", func(t *testing.T) {
		mustFail(t, `no context "c3" for --target-context; it has: c1, c2`, path, "connect", "c3", "--target-context", "c3")
	})
	t.Run("a Secret that somebody else made", func(t *testing.T) {
		createIfAbsent(t, c1, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "admiralty", Name: "taken"}})
		mustFail(t, "Secret admiralty/taken", path, "connect", "taken", "--target-context", "c2")
	})
	t.Run("a namespace that does not exist", func(t *testing.T) {
		mustFail(t, `no namespace "nowhere"`, path, "connect", "c2", "--target-context", "c2", "--secret-namespace", "nowhere")
	})
}

func TestConnectNeedsTheChartAndTheManager(t *testing.T) {
	bare := apiserver.Start(t, apiserver.Options{CRDs: []string{}}, "bare")[0]
	path := kubeconfig(t, c1, bare)
	mustFail(t, `not installed in the cluster of context "bare"`, path, "connect", "bare", "--target-context", "bare")
	mustFail(t, `not installed in the cluster of context "bare"`, path, "status", "--context", "bare")
	mustFail(t, "no manager looked at ClusterTarget unattended in time", path, "connect", "unattended", "--self", "--timeout", "3s")
	if err := bare.Stop(); err != nil {
		t.Fatal(err)
	}
	mustFail(t, `asking the cluster of context "bare"`, path, "status", "--context", "bare")
}
