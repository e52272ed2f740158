package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The tests share c1 and c2. They run one after the other, with names of their own.
var c1, c2 *env.Cluster

// idOfC1 and idOfC2 are the cluster IDs that the managers of c1 and c2 publish.
const (
	idOfC1 = "id-of-c1"
	idOfC2 = "id-of-c2"
)

func TestMain(m *testing.M) {
	env.Main(m, func(t env.T) {
		clusters := env.Start(t, "c1", "c2")
		c1, c2 = clusters[0], clusters[1]
		for _, cluster := range clusters {
			env.Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
		}
		c2.InstallSourceRoles(t)
		for cluster, id := range map[*env.Cluster]string{c1: idOfC1, c2: idOfC2} {
			publish(t, cluster, id)
		}
	})
}

// publish plays a manager that is a target.
func publish(t env.T, cluster *env.Cluster, id string) {
	t.Helper()
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.Ensure(t, cluster, summary)
	env.ChangeStatus(t, cluster, summary, func(s *v1alpha1.ClusterSummary) { s.Status.ClusterID = id })
}

// play runs the parts that answer in both clusters until the test ends.
func play(t *testing.T) {
	t.Helper()
	env.RunManager(t, c2.Config, func(mgr ctrl.Manager) error {
		controller := source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder:              mgr.GetEventRecorder("sources"),
			SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace,
		})
		if err := controller.Register(t.Context(), mgr); err != nil {
			return err
		}
		tokens := &tokenController{mgr.GetClient()}
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(tokens)
	})
	env.RunManager(t, c1.Config, func(mgr ctrl.Manager) error {
		for _, kind := range []client.Object{&v1alpha1.ClusterTarget{}, &v1alpha1.Target{}} {
			connect := reconcile.Func(connectTarget)
			if err := ctrl.NewControllerManagedBy(mgr).For(kind, builder.OnlyMetadata).Complete(connect); err != nil {
				return err
			}
		}
		return nil
	})
}

// tokenController fills token Secrets, as the controller manager of Kubernetes does.
type tokenController struct{ client client.Client }

func (c *tokenController) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	secret := &corev1.Secret{}
	if err := c.client.Get(ctx, request.NamespacedName, secret); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if secret.Type != corev1.SecretTypeServiceAccountToken || len(secret.Data[corev1.ServiceAccountTokenKey]) > 0 {
		return reconcile.Result{}, nil
	}
	name := secret.Annotations[corev1.ServiceAccountNameKey]
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(secret.Namespace, name)}
	token := &authenticationv1.TokenRequest{}
	if err := c.client.SubResource("token").Create(ctx, account, token); err != nil {
		return reconcile.Result{}, err
	}
	secret.Data = map[string][]byte{
		corev1.ServiceAccountTokenKey: []byte(token.Status.Token), corev1.ServiceAccountRootCAKey: c2.Config.CAData,
	}
	return reconcile.Result{}, c.client.Update(ctx, secret)
}

// reports says whether the source's manager reports when tokens expire. Managers of earlier versions do not.
var reports = true

// connectTarget writes whether the kubeconfig of a target leads to a cluster where PodChaperons can be listed, as the
// source's manager does.
func connectTarget(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := targetkind.New(request.NamespacedName)
	if err := c1.Client.Get(ctx, request.NamespacedName, target); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	condition := metav1.Condition{
		Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected,
		ObservedGeneration: target.GetGeneration(),
	}
	result := reconcile.Result{}
	if secret := targetkind.Spec(target).KubeconfigSecret; secret != nil {
		key := client.ObjectKey{Namespace: secret.Namespace, Name: secret.Name}
		if err := try(ctx, key, request.Namespace); err != nil {
			result.RequeueAfter = time.Second
			condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnreachable
			condition.Message = err.Error()
		}
	}
	status := targetkind.Status(target)
	status.NodeName = "admiralty-" + target.GetName()
	if reports {
		status.Credentials = &v1alpha1.TargetCredentials{Expires: metav1.NewTime(clock.RealClock{}.Now())}
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	condition.Type = v1alpha1.ConditionReady
	meta.SetStatusCondition(&status.Conditions, condition)
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, c1.Client.Status().Patch(ctx, target, client.RawPatch(types.MergePatchType, patch))
}

// try uses the kubeconfig of a Secret. A source may list PodChaperons in its namespaces only.
func try(ctx context.Context, key client.ObjectKey, namespace string) error {
	c, err := login(ctx, key)
	if err != nil {
		return err
	}
	return c.List(ctx, &v1alpha1.PodChaperonList{}, client.InNamespace(cmp.Or(namespace, metav1.NamespaceDefault)))
}

// login returns a client with the kubeconfig of a Secret in c1.
func login(ctx context.Context, key client.ObjectKey) (client.Client, error) {
	secret := &corev1.Secret{}
	if err := c1.Client.Get(ctx, key, secret); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["config"])
	if err != nil {
		return nil, err
	}
	config.Timeout = 5 * time.Second
	return client.New(config, client.Options{Scheme: c1.Client.Scheme()})
}

// command runs the program with a kubeconfig.
func command(t *testing.T, kubeconfig string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}
	code = cli.Run(t.Context(), streams, append(args, "--kubeconfig", kubeconfig))
	return code, stdout.String(), stderr.String()
}

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
		t.Errorf("%s: exit code %d, want a failure that says %q\n%s%s",
			strings.Join(args, " "), code, want, out, errOut)
	}
}

// expectSays checks that an output contains texts.
func expectSays(t *testing.T, out string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not say %q:\n%s", want, out)
		}
	}
}

// kubeconfig writes one with a context per cluster, named after it, and the first as the current one.
func kubeconfig(t *testing.T, clusters ...*env.Cluster) (path string) {
	t.Helper()
	contexts := make([]env.Context, len(clusters))
	for i, cluster := range clusters {
		contexts[i] = env.Context{Name: cluster.Name, Login: cluster.Config}
	}
	return write(t, contexts...)
}

// kubeconfigFor writes one for a login in c1.
func kubeconfigFor(t *testing.T, login *rest.Config) (path string) {
	t.Helper()
	return write(t, env.Context{Name: "c1", Login: login})
}

func write(t *testing.T, contexts ...env.Context) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kubeconfig")
	env.Must(t, os.WriteFile(path, env.Kubeconfig(t, contexts...), 0o600))
	return path
}
