package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// tokens returns the tokens without end of the release's namespace in c2, by the names of their Secrets.
func tokens(t *testing.T) map[string]string {
	t.Helper()
	secrets := &corev1.SecretList{}
	env.Must(t, c2.Client.List(t.Context(), secrets, client.InNamespace(env.ReleaseNamespace)))
	found := map[string]string{}
	for _, secret := range secrets.Items {
		found[secret.Name] = string(secret.Data[corev1.ServiceAccountTokenKey])
	}
	return found
}

func TestConnectStatusDisconnect(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	connectForTheFirstTime(t, path)
	t.Run("status shows the connection", func(t *testing.T) {
		expectSays(t, mustRun(t, path, "status"), "c2     -           True")
	})
	t.Run("a token without end is made on request, and replaces the earlier one", func(t *testing.T) {
		mustRun(t, path, "connect", "c2", "--target-context", "c2", "--token-duration", "0")
		before := tokens(t)
		mustRun(t, path, "connect", "c2", "--target-context", "c2", "--token-duration", "0")
		after := tokens(t)
		if len(before) != 1 || len(after) != 1 {
			t.Fatalf("there were %d tokens and are %d, want 1 and 1", len(before), len(after))
		}
		for name := range after {
			if _, kept := before[name]; kept {
				t.Error("the token is the earlier one")
			}
		}
		_, err := login(t.Context(), secretOfC2())
		env.Must(t, err)
	})
	t.Run("a new token that expires replaces the one without end", func(t *testing.T) {
		mustRun(t, path, "connect", "c2", "--target-context", "c2", "--renew")
		if n := len(tokens(t)); n != 0 {
			t.Errorf("there are %d tokens without end", n)
		}
		expectTokenOfADay(t)
	})
	t.Run("a second target of the same cluster has a connection of its own", func(t *testing.T) {
		mustRun(t, path, "connect", "again", "--target-context", "c2")
		out := mustRun(t, path, "disconnect", "again", "--target-context", "c2")
		if !strings.Contains(out, "ClusterSource c1 kept") {
			t.Errorf("the first connection was touched:\n%s", out)
		}
		_, err := login(t.Context(), secretOfC2())
		env.Must(t, err)
	})
	t.Run("disconnect leaves no object of the source", func(t *testing.T) { disconnectEntirely(t, path) })
}

func secretOfC2() client.ObjectKey {
	return client.ObjectKey{Namespace: env.ReleaseNamespace, Name: "c2"}
}

func connectForTheFirstTime(t *testing.T, path string) {
	t.Helper()
	code, out, errOut := command(t, path, "connect", "c2", "--target-context", "c2")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	expectSays(t, out, "c2: ClusterSource c1 applied", "c1: Secret admiralty/c2 applied",
		"c1: virtual node admiralty-c2 is ready", "kubectl --context c1 label namespace")
	expectSays(t, errOut, "use --server") // This warns of the loopback address.
	expectTokenOfADay(t)

	source := env.Get(t, c2, &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}})
	env.ExpectEqual(t, "cluster ID of the ClusterSource", idOfC1, source.Spec.ClusterID)
	asSource, err := login(t.Context(), secretOfC2())
	env.Must(t, err)
	if err := asSource.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the source lists Secrets of the target: %v", err)
	}
}

func disconnectEntirely(t *testing.T, path string) {
	t.Helper()
	ours, others := chaperonOf(t, "c2"), chaperonOf(t, "another")
	env.CreateForTest(t, c1, env.Proxy(metav1.NamespaceDefault, "left", func(pod *corev1.Pod) {
		pod.Spec.NodeName = "admiralty-c2"
	}))
	code, out, errOut := command(t, path, "disconnect", "c2", "--target-context", "c2")
	if code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errOut)
	}
	expectSays(t, errOut, "warning: pods on virtual node admiralty-c2: 1.")
	if env.Exists(t, c2, ours) && ours.DeletionTimestamp.IsZero() {
		t.Error("the delegates of the source run on")
	}
	if !env.Exists(t, c2, others) || !others.DeletionTimestamp.IsZero() {
		t.Error("the PodChaperon of another connection was deleted")
	}
	for cluster, objects := range map[*env.Cluster][]client.Object{
		c1: {
			&v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "c2"}},
			&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, "c2")},
		},
		c2: {&v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}},
	} {
		for _, object := range objects {
			if env.Exists(t, cluster, object) {
				t.Errorf("%T %q remains in %s", object, object.GetName(), cluster.Name)
			}
		}
	}
	if n := len(tokens(t)); n != 0 {
		t.Errorf("%d tokens remain", n)
	}
	if objects := renewals(t); len(objects) != 0 {
		t.Errorf("the right to renew tokens remains: %v", objects)
	}
	expectSays(t, mustRun(t, path, "disconnect", "c2", "--target-context", "c2"), "there is no ClusterTarget c2")
}

// chaperonOf creates in c2 the PodChaperon that the source c1 has there by its ClusterTarget of the name.
func chaperonOf(t *testing.T, target string) *v1alpha1.PodChaperon {
	t.Helper()
	system := env.Get(t, c1, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}})
	key := client.ObjectKey{Name: target}
	chaperon := env.Chaperon(metav1.NamespaceDefault, "delegate-of-"+target, string(system.UID), key)
	env.CreateForTest(t, c2, chaperon)
	return chaperon
}

func TestConnectOneNamespace(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	team := env.Namespace(t, nil, c1, c2)
	mustRun(t, path, "connect", "c2", "--target-context", "c2", "--namespaced", "--namespace", team)
	source := &v1alpha1.Source{ObjectMeta: env.Meta(team, "c1")}
	if !env.Exists(t, c2, source) {
		t.Error("there is no Source")
	}
	asSource, err := login(t.Context(), client.ObjectKey{Namespace: team, Name: "c2"})
	env.Must(t, err)
	if err := asSource.List(t.Context(), &v1alpha1.PodChaperonList{}); !apierrors.IsForbidden(err) {
		t.Errorf("the source lists PodChaperons of every namespace: %v", err)
	}
	mustRun(t, path, "disconnect", "c2", "--target-context", "c2", "--namespaced", "--namespace", team)
	if env.Exists(t, c2, source) {
		t.Error("the Source remains")
	}
}

// TestConnectOneNamespaceWarnsOfOthers has a ClusterSource that may use all namespaces.
func TestConnectOneNamespaceWarnsOfOthers(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	team := env.Namespace(t, nil, c1, c2)
	connect := []string{"connect", "warned", "--target-context", "c2", "--namespaced", "--namespace", team}
	warns := func() bool {
		code, out, errOut := command(t, path, connect...)
		if code != 0 {
			t.Fatalf("exit code %d\n%s%s", code, out, errOut)
		}
		return strings.Contains(errOut, "the source with the user somebody may use namespace "+team)
	}
	if warns() {
		t.Error("a warning, although there is no other source")
	}
	env.CreateForTest(t, c2, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: "somebody"}, Spec: v1alpha1.ClusterSourceSpec{UserName: "somebody"},
	})
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName("somebody")}}
	env.WaitFor(t, c2, grant, func(g *v1alpha1.SourceGrant) error {
		if !slices.Contains(g.Status.Namespaces, team) {
			return fmt.Errorf("namespaces %v", g.Status.Namespaces)
		}
		return nil
	})
	if !warns() {
		t.Error("no warning of the other source")
	}
	mustRun(t, path, "disconnect", "warned", "--target-context", "c2", "--namespaced", "--namespace", team)
}

func TestConnectPinsTheClusterAndAcceptsNoOtherUnasked(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustRun(t, path, "connect", "pinned", "--target-context", "c2")
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "pinned"}}
	env.ExpectEqual(t, "the pinned cluster", idOfC2, env.Get(t, c1, target).Spec.ClusterID)
	mustRun(t, path, "connect", "pinned", "--target-context", "c2")

	for name, change := range map[string]func(*v1alpha1.ClusterTarget){
		"by its spec": func(target *v1alpha1.ClusterTarget) { target.Spec.ClusterID = "id-of-c3" },
		"by what was connected first": func(target *v1alpha1.ClusterTarget) {
			target.Spec.ClusterID, target.Status.ClusterID = "", "id-of-c3"
		},
	} {
		t.Run(name, func(t *testing.T) {
			env.Change(t, c1, target, change)
			env.ChangeStatus(t, c1, target, change)
			env.Get(t, c1, target)
			mustFail(t, "ClusterTarget pinned is the cluster id-of-c3, and context \"c2\" is another one, id-of-c2",
				path, "connect", "pinned", "--target-context", "c2")
			after := env.Get(t, c1, target.DeepCopy())
			env.ExpectEqual(t, "generation of the ClusterTarget", target.Generation, after.Generation)
			mustRun(t, path, "connect", "pinned", "--target-context", "c2", "--accept")
			env.ExpectEqual(t, "the accepted cluster", idOfC2, env.Get(t, c1, target).Spec.ClusterID)
		})
	}
	mustRun(t, path, "disconnect", "pinned", "--target-context", "c2")
}

func TestConnectFindsTheIDOfASourceThatIsNoTarget(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.Delete(t, c1, summary)
	uid := string(env.Get(t, c1, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}).UID)
	for name, test := range map[string]struct {
		values    []string // of the chart, nil if it is not there
		want, say string
	}{
		"by-default":    {values: []string{}, want: uid},
		"by-its-values": {values: []string{"--set", "clusterID=mine"}, want: "mine"},
		"not-at-all":    {say: `namespace "admiralty" has not exactly one configuration of a manager`},
	} {
		t.Run(name, func(t *testing.T) {
			if test.values != nil {
				for _, object := range env.Render(t, env.Release,
					append(test.values, "--show-only", "templates/configmap.yaml", "--set", "roles.target=false")...) {
					env.CreateForTest(t, c1, object)
				}
			}
			code, out, errOut := command(t, path, "connect", name, "--target-context", "c2", "--source-name", name)
			if code != 0 {
				t.Fatalf("exit code %d\n%s%s", code, out, errOut)
			}
			expectSays(t, errOut, test.say)
			source := env.Get(t, c2, &v1alpha1.ClusterSource{ObjectMeta: metav1.ObjectMeta{Name: name}})
			env.ExpectEqual(t, "cluster ID of the ClusterSource", test.want, source.Spec.ClusterID)
			mustRun(t, path, "disconnect", name, "--target-context", "c2", "--source-name", name)
		})
	}
	publish(t, c1, idOfC1)
}

func TestConnectItselfAndThenAnother(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	mustRun(t, path, "connect", "changing", "--self")
	target := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: "changing"}}
	if !env.Exists(t, c1, target) || !target.Spec.Self {
		t.Fatalf("spec is %+v", target.Spec)
	}
	mustRun(t, path, "connect", "changing", "--target-context", "c2")
	if !env.Exists(t, c1, target) || target.Spec.Self || target.Spec.KubeconfigSecret == nil {
		t.Errorf("spec is %+v", target.Spec)
	}
}

func TestConnectWithATokenThatExpires(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)
	env.CreateForTest(t, c2, &corev1.ConfigMap{
		ObjectMeta: env.Meta(env.ReleaseNamespace, "kube-root-ca.crt"),
		Data:       map[string]string{"ca.crt": string(c2.Config.CAData)},
	})
	before := len(tokens(t))
	mustRun(t, path, "connect", "expiring", "--target-context", "c2", "--token-duration", "1h")
	if after := len(tokens(t)); after != before {
		t.Errorf("there were %d token Secrets and are %d", before, after)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	play(t)
	path := kubeconfig(t, c1, c2)

	t.Run("an address that leads nowhere is reported", func(t *testing.T) {
		mustFail(t, "ClusterTarget nowhere did not become Connected in time: Unreachable: ", path,
			"connect", "nowhere", "--target-context", "c2", "--server", "https://127.0.0.1:1", "--timeout", "20s")
		expectSays(t, mustRun(t, path, "status"), "ClusterTarget nowhere is not connected (Unreachable)")
	})
	t.Run("a mistyped context is reported", func(t *testing.T) {
		mustFail(t, `no context "c3" for --target-context; it has: c1, c2`, path,
			"connect", "c3", "--target-context", "c3")
	})
	t.Run("a Secret of somebody else is reported", func(t *testing.T) {
		env.CreateForTest(t, c1, &corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, "taken")})
		mustFail(t, "Secret admiralty/taken", path, "connect", "taken", "--target-context", "c2")
	})
	t.Run("a missing namespace is reported", func(t *testing.T) {
		mustFail(t, `no namespace "nowhere"`, path,
			"connect", "c2", "--target-context", "c2", "--secret-namespace", "nowhere")
	})
}

func TestConnectNeedsTheChartAndTheManager(t *testing.T) {
	bare := env.StartBare(t, "bare")
	path := kubeconfig(t, c1, bare)
	mustFail(t, `not installed in the cluster of context "bare"`, path, "connect", "bare", "--target-context", "bare")
	mustFail(t, `not installed in the cluster of context "bare"`, path, "status", "--context", "bare")
	mustFail(t, "no manager looked at ClusterTarget unattended in time", path,
		"connect", "unattended", "--self", "--timeout", "10s")
	env.Must(t, bare.Stop())
	mustFail(t, `asking the cluster of context "bare"`, path, "status", "--context", "bare")
}
