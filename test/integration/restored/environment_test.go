package restored

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// shop is the namespace of all pods.
	shop = "shop"
	// directory is the environment variable that makes a process a manager: it names the directory with its files.
	directory = "RESTORED_TEST_MANAGER"
	account   = "source"
	// shownLines is how much of a manager's log is shown when a test has failed.
	shownLines = 50
)

var (
	source, target *env.Cluster
	logs           string // the directory of the managers' logs
)

func TestMain(m *testing.M) {
	if files := os.Getenv(directory); files != "" {
		beManager(files)
	}
	env.Main(m, setUp)
}

// beManager runs a manager until the process is killed.
func beManager(files string) {
	ctx := ctrl.SetupSignalHandler()
	logger := zap.New(zap.UseDevMode(true), zap.WriteTo(os.Stderr)).WithName(filepath.Base(files))
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	login, err := clientcmd.BuildConfigFromFlags("", filepath.Join(files, "kubeconfig"))
	if err == nil {
		var raw []byte
		raw, err = os.ReadFile(filepath.Join(files, "config"))
		var config *configv1alpha1.Configuration
		if err == nil {
			config, err = configv1alpha1.Load(raw)
		}
		if err == nil {
			pod := manager.Pod{Namespace: env.ReleaseNamespace, IP: "127.0.0.1"}
			err = manager.Run(log.IntoContext(ctx, logger), login, config, pod)
		}
	}
	fmt.Fprintln(os.Stderr, "the manager has ended:", err)
	os.Exit(1)
}

func setUp(t env.T) {
	clusters := env.Start(t, "source", "target")
	source, target = clusters[0], clusters[1]
	var err error
	logs, err = os.MkdirTemp("", "logs")
	env.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(logs) })
	for _, cluster := range clusters {
		env.Create(t, cluster,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop, Labels: env.Enabled()}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}},
			&corev1.ServiceAccount{ObjectMeta: env.Meta(shop, "default")})
		prepareManager(t, cluster)
	}
	target.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), "")
	createWorker(t)
	play(t)
	supervise(t, target, "id-of-target", "source: false")
	login := target.Token(t, &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, account)})
	env.Create(t, target, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: account},
		},
	})
	env.Create(t, source, &corev1.Secret{
		ObjectMeta: env.Meta(env.ReleaseNamespace, "kubeconfig"),
		Data:       map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})},
	})
	user := env.ServiceAccountUser(env.ReleaseNamespace, account)
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(user)}}
	env.WaitFor(t, target, grant, func(grant *v1alpha1.SourceGrant) error {
		if grant.Status.Lease == nil || len(grant.Status.Namespaces) == 0 {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		return nil
	})
}

// createWorker creates the node on which all delegates run.
func createWorker(t env.T) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	env.Create(t, target, node)
	env.Change(t, target, node, func(node *corev1.Node) { node.Spec.Taints = nil }) // It is ready.
	env.ChangeStatus(t, target, node, func(node *corev1.Node) {
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"),
		}
		node.Status.Capacity = node.Status.Allocatable
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
}

// prepareManager creates the objects of the chart that the manager fills in. No webhook is called.
func prepareManager(t env.T, in *env.Cluster) {
	t.Helper()
	name := metav1.ObjectMeta{Name: env.Release}
	env.Ensure(t, in,
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-webhook-certificate")},
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-proof")},
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-tokens")},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name})
}

// supervise runs a manager as Kubernetes does: when it ends, it is started again after a while. It runs until stop is
// called, or the test ends.
func supervise(t env.T, in *env.Cluster, clusterID, roles string) (stop func()) {
	t.Helper()
	files, err := os.MkdirTemp("", in.Name+"_")
	env.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(files) })
	config := fmt.Sprintf(`
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
roles: {%s}
clusterName: %s
clusterID: %s
leaderElection: {namespace: %s}
leases: {namespace: %s}
metrics: {bindAddress: "0"}
health: {bindAddress: "127.0.0.1:%d"}
webhook:
  port: %d
  selfManaged: {secretName: %[8]s-webhook-certificate, serviceName: webhook, webhookConfigurationName: %[8]s}
kubeletAPI: {enabled: false}
`, roles, in.Name, clusterID, env.ReleaseNamespace, env.LeasesNamespace,
		porttest.Free(t), porttest.Free(t), env.Release)
	env.Must(t, os.WriteFile(filepath.Join(files, "config"), []byte(config), 0o600))
	kubeconfig := env.Kubeconfig(t, env.Context{Name: "x", Login: in.Config})
	env.Must(t, os.WriteFile(filepath.Join(files, "kubeconfig"), kubeconfig, 0o600))
	return env.Run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := runManager(ctx, files, in.Name); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
			case <-time.After(time.Second):
			}
		}
		return nil
	})
}

// runManager runs a manager, which is stopped in good order when ctx ends. Its cluster's log gets what it prints.
func runManager(ctx context.Context, files, cluster string) error {
	printed, err := os.OpenFile(logOf(cluster), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = printed.Close() }()
	// setpriv has the kernel kill the manager when the tests end, however they end.
	process := exec.CommandContext(ctx, "setpriv", "--pdeathsig", "KILL", os.Args[0])
	process.Env = append(os.Environ(), directory+"="+files)
	process.Stderr = printed
	if testing.Verbose() {
		process.Stderr = io.MultiWriter(printed, os.Stderr)
	}
	process.Cancel = func() error { return process.Process.Signal(syscall.SIGTERM) }
	process.WaitDelay = 20 * time.Second
	if err := process.Start(); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(printed, "the process has ended:", process.Wait())
	return nil
}

func logOf(cluster string) string { return filepath.Join(logs, cluster) }

// showLogs shows the last lines of the managers' logs if the test has failed.
func showLogs(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if !t.Failed() || testing.Verbose() {
			return
		}
		for _, cluster := range []*env.Cluster{source, target} {
			printed, err := os.ReadFile(logOf(cluster.Name))
			if err != nil {
				t.Error(err)
				continue
			}
			lines := strings.SplitAfter(string(printed), "\n")
			last := lines[max(0, len(lines)-shownLines):]
			t.Logf("the end of what the manager of %s has printed:\n%s", cluster.Name, strings.Join(last, ""))
		}
	})
}

// runSource runs the source's manager.
func runSource(t *testing.T) (stop func()) {
	t.Helper()
	return supervise(t, source, "id-of-source", "target: false")
}

// connect creates a ClusterTarget that leads to the target. It is deleted when the test ends.
func connect(t *testing.T, name string) *v1alpha1.ClusterTarget {
	t.Helper()
	object := clusterTarget(name)
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: env.ReleaseNamespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "kubeconfig"},
	}
	env.Must(t, source.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		_ = source.Client.Delete(context.WithoutCancel(t.Context()), clusterTarget(name)) // A restore may have done so.
	})
	return object
}

func clusterTarget(name string) *v1alpha1.ClusterTarget {
	return &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func ignoreNotFound(err error) error { return client.IgnoreNotFound(err) }
