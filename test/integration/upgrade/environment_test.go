package upgrade

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/manager"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/porttest"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var source, target *env.Cluster

func TestMain(m *testing.M) { env.Main(m, func(env.T) {}) }

// inItsOwnProcess says whether the test goes on in this process. Otherwise it ran in another one. A process can run one
// manager of each role only, because names of controllers and metrics are unique.
func inItsOwnProcess(t *testing.T) bool {
	t.Helper()
	const variable = "UPGRADE_TEST"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1",
		fmt.Sprintf("-test.v=%t", testing.Verbose()))
	child.Env = append(os.Environ(), variable+"="+t.Name())
	if output, err := child.CombinedOutput(); err != nil || testing.Verbose() {
		t.Logf("in its own process (%v):\n%s", err, output)
		if err != nil {
			t.Fail()
		}
	}
	return false
}

// startClusters starts the clusters, with the custom resources of before.
func startClusters(t *testing.T) {
	t.Helper()
	source, target = env.Start(t, "source")[0], env.StartBare(t, "target")
	applyCustomResources(t, func(file string) bool { return !strings.Contains(file, "sourcegrants") })
	for _, cluster := range []*env.Cluster{source, target} {
		labels := env.Enabled()
		env.Create(t, cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop, Labels: labels}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}},
			&corev1.ServiceAccount{ObjectMeta: env.Meta(shop, "default")})
	}
	createOldRoles(t)
	createOldTarget(t)
}

// applyCustomResources applies definitions of the chart to the target.
func applyCustomResources(t env.T, choose func(file string) bool) {
	t.Helper()
	files, err := filepath.Glob("../../../charts/" + env.Release + "/crds/*.yaml")
	env.Must(t, err)
	var chosen []string
	for _, file := range files {
		if choose(file) {
			chosen = append(chosen, file)
		}
	}
	_, err = envtest.InstallCRDs(target.Config, envtest.CRDInstallOptions{Paths: chosen, ErrorIfPathMissing: true})
	env.Must(t, err)
}

// runManager runs the present manager in a cluster until the test ends. No pods are created there, so the webhook
// configurations have no webhooks.
func runManager(t *testing.T, in *env.Cluster, roles string) {
	t.Helper()
	cluster := map[*env.Cluster]string{source: "c1", target: targetName}[in]
	name := metav1.ObjectMeta{Name: env.Release}
	env.Ensure(t, in,
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-webhook-certificate")},
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-proof")},
		&corev1.Secret{ObjectMeta: env.Meta(env.ReleaseNamespace, env.Release+"-tokens")},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: name},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: name})
	config, err := configv1alpha1.Load(fmt.Appendf(nil, `
apiVersion: config.multicluster.admiralty.io/v1alpha1
kind: Configuration
roles: {%s}
clusterName: %[6]s
clusterID: id-of-%[6]s
leaderElection: {namespace: %[2]s}
metrics: {bindAddress: "0"}
health: {bindAddress: "127.0.0.1:%d"}
webhook:
  port: %d
  selfManaged: {secretName: %[5]s-webhook-certificate, serviceName: webhook, webhookConfigurationName: %[5]s}
kubeletAPI: {enabled: false}
`, roles, env.ReleaseNamespace, porttest.Free(t), porttest.Free(t), env.Release, cluster))
	env.Must(t, err)
	env.Run(t, func(ctx context.Context) error {
		pod := manager.Pod{Namespace: env.ReleaseNamespace, IP: "127.0.0.1"}
		logger := logr.Discard()
		if testing.Verbose() {
			logger = ctrl.Log.WithName(in.Name)
		}
		return manager.Run(log.IntoContext(ctx, logger), in.Config, config, pod)
	})
}

// upgradeChart applies the objects of the present chart that concern sources, as `helm upgrade` does.
func upgradeChart(t *testing.T) {
	t.Helper()
	for _, object := range env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/sources.yaml", "--set", "rbac.selfTarget=false") {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: object.GetName()}}
		if object.GetKind() != "ClusterRole" || !env.Exists(t, target, role) {
			env.Create(t, target, object)
			continue
		}
		wanted := &rbacv1.ClusterRole{}
		env.Must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, wanted))
		env.Change(t, target, role, func(r *rbacv1.ClusterRole) { r.Rules, r.Labels = wanted.Rules, wanted.Labels })
	}
}

// observer watches proxies, PodChaperons and delegates from outside.
type observer struct {
	mu sync.Mutex // guards the fields below
	// chaperons are the names of PodChaperons by the UID of their proxy.
	chaperons map[string]string
	faults    []string
}

// observe watches until the test ends.
func observe(t *testing.T) *observer {
	t.Helper()
	o := &observer{chaperons: map[string]string{}}
	for _, w := range []struct {
		cluster *env.Cluster
		list    client.ObjectList
	}{{source, &corev1.PodList{}}, {target, &corev1.PodList{}}, {target, &v1alpha1.PodChaperonList{}}} {
		watching, err := client.NewWithWatch(w.cluster.Config, client.Options{Scheme: env.Scheme()})
		env.Must(t, err)
		events, err := watching.Watch(t.Context(), w.list, client.InNamespace(shop))
		env.Must(t, err)
		t.Cleanup(events.Stop)
		go o.see(w.cluster.Name, events)
	}
	return o
}

// see notes what a watch says. A watch that ends before the test does has not seen everything.
func (o *observer) see(cluster string, events watch.Interface) {
	for event := range events.ResultChan() {
		o.note(cluster, event)
	}
	o.fault("%s: a watch has ended", cluster)
}

func (o *observer) fault(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.faults = append(o.faults, fmt.Sprintf(format, args...))
}

func (o *observer) note(cluster string, event watch.Event) {
	object, ok := event.Object.(client.Object)
	if !ok {
		o.fault("%s: a watch says %s: %v", cluster, event.Type, apierrors.FromObject(event.Object))
		return
	}
	if event.Type == watch.Deleted || object.GetDeletionTimestamp() != nil {
		o.fault("%s: %T %s is deleted", cluster, object, object.GetName())
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, isChaperon := object.(*v1alpha1.PodChaperon); !isChaperon {
		return
	}
	uid := object.GetLabels()[v1alpha1.LabelParentUID]
	if other, ok := o.chaperons[uid]; ok && other != object.GetName() {
		o.faults = append(o.faults, fmt.Sprintf("proxy %s has PodChaperons %s and %s", uid, other, object.GetName()))
	}
	o.chaperons[uid] = object.GetName()
}

// expectNoFaults fails the test if a pod was deleted, or ran twice, until now, or if the watches did not show it all.
func (o *observer) expectNoFaults(t *testing.T) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, fault := range o.faults {
		t.Error(fault)
	}
	if len(o.chaperons) == 0 {
		t.Error("no PodChaperon was seen")
	}
}
