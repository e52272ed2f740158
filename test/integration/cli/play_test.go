package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

const sourceRole, viewerRole = "multicluster-scheduler-source", "multicluster-scheduler-cluster-summary-viewer"

// command runs the program with the kubeconfig of both clusters.
func command(t *testing.T, kubeconfig string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{Out: &stdout, ErrOut: &stderr}
	code = cli.Run(t.Context(), streams, append(args, "--kubeconfig", kubeconfig))
	return code, stdout.String(), stderr.String()
}

// kubeconfig writes one with a context per cluster, named after it, and the first as the current one.
func kubeconfig(t *testing.T, clusters ...*apiserver.Cluster) string {
	t.Helper()
	merged := clientcmdapi.NewConfig()
	for _, cluster := range clusters {
		one, err := clientcmd.Load(cluster.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		current := one.Contexts[one.CurrentContext]
		merged.Clusters[cluster.Name] = one.Clusters[current.Cluster]
		merged.AuthInfos[cluster.Name] = one.AuthInfos[current.AuthInfo]
		merged.Contexts[cluster.Name] = &clientcmdapi.Context{Cluster: cluster.Name, AuthInfo: cluster.Name}
	}
	merged.CurrentContext = clusters[0].Name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*merged, path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	return path
}

// play runs what answers in both clusters until the test ends.
func play(t *testing.T) {
	t.Helper()
	for _, cluster := range []*apiserver.Cluster{c1, c2} {
		createIfAbsent(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "admiralty"}})
	}
	for name, resource := range map[string]string{sourceRole: "podchaperons", viewerRole: "clustersummaries"} {
		createIfAbsent(t, c2, &rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupName}, Resources: []string{resource}, Verbs: []string{"list"}}},
		})
	}
	run(t, c2, func(mgr ctrl.Manager) error {
		controller := source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			SourceClusterRoleName: sourceRole, SummaryViewerClusterRoleName: viewerRole,
		})
		if err := controller.Register(mgr); err != nil {
			return err
		}
		tokens := &tokenController{mgr.GetClient()}
		return ctrl.NewControllerManagedBy(mgr).For(&corev1.Secret{}).Complete(tokens)
	})
	run(t, c1, func(mgr ctrl.Manager) error {
		clusterTargets := &connector[*v1alpha1.ClusterTarget]{mgr.GetClient(), func() *v1alpha1.ClusterTarget { return &v1alpha1.ClusterTarget{} }}
		if err := ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.ClusterTarget{}, builder.OnlyMetadata).Complete(clusterTargets); err != nil {
			return err
		}
		targets := &connector[*v1alpha1.Target]{mgr.GetClient(), func() *v1alpha1.Target { return &v1alpha1.Target{} }}
		return ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.Target{}, builder.OnlyMetadata).Complete(targets)
	})
}

func run(t *testing.T, cluster *apiserver.Cluster, register func(ctrl.Manager) error) {
	t.Helper()
	mgr, err := ctrl.NewManager(cluster.Config, ctrl.Options{
		Scheme:     cluster.Client.Scheme(),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := register(mgr); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("running: %v", err)
		}
	})
}

func createIfAbsent(t *testing.T, cluster *apiserver.Cluster, object client.Object) {
	t.Helper()
	if err := cluster.Client.Create(t.Context(), object); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
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
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Annotations[corev1.ServiceAccountNameKey]}}
	token := &authenticationv1.TokenRequest{}
	if err := c.client.SubResource("token").Create(ctx, account, token); err != nil {
		return reconcile.Result{}, err
	}
	secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token.Status.Token), corev1.ServiceAccountRootCAKey: c2.Config.CAData}
	return reconcile.Result{}, c.client.Update(ctx, secret)
}

// connector says of a target whether its kubeconfig leads to a cluster where PodChaperons can be listed, as the source's manager does.
type connector[T client.Object] struct {
	client client.Client
	new    func() T
}

func (c *connector[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	target := c.new()
	if err := c1.Client.Get(ctx, request.NamespacedName, target); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before, _ := target.DeepCopyObject().(T)
	status, secret := parts(target)
	condition := metav1.Condition{Type: v1alpha1.ConditionConnected, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected}
	if secret != nil {
		if err := try(ctx, *secret, request.Namespace); err != nil {
			condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, v1alpha1.ReasonUnreachable, err.Error()
		}
	}
	condition.ObservedGeneration = target.GetGeneration()
	meta.SetStatusCondition(&status.Conditions, condition)
	condition.Type = v1alpha1.ConditionReady
	meta.SetStatusCondition(&status.Conditions, condition)
	status.NodeName = "admiralty-" + target.GetName()
	return reconcile.Result{}, c1.Client.Status().Patch(ctx, target, client.MergeFrom(before))
}

func parts(target client.Object) (*v1alpha1.TargetStatus, *client.ObjectKey) {
	switch t := target.(type) {
	case *v1alpha1.ClusterTarget:
		if s := t.Spec.KubeconfigSecret; s != nil {
			return &t.Status, &client.ObjectKey{Namespace: s.Namespace, Name: s.Name}
		}
		return &t.Status, nil
	case *v1alpha1.Target:
		if s := t.Spec.KubeconfigSecret; s != nil {
			return &t.Status, &client.ObjectKey{Namespace: t.Namespace, Name: s.Name}
		}
		return &t.Status, nil
	default:
		return nil, nil
	}
}

// try uses the Secret's kubeconfig; a source with rights in one namespace may list there only.
func try(ctx context.Context, key client.ObjectKey, namespace string) error {
	c, err := login(ctx, key)
	if err != nil {
		return err
	}
	return c.List(ctx, &v1alpha1.PodChaperonList{}, client.InNamespace(namespace))
}

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
