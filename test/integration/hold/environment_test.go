package hold

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/presence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	speed     = 3
	clusterID = "id-of-c1"
	// election is the name of the Lease of the leader election, in the namespace default.
	election = "manager-of-the-source"
)

var (
	c1, copied, c2 *env.Cluster
	// managerUser is the user name of the target's manager.
	managerUser = env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	// fast is the clock of the parts under test.
	fast = env.FastClock(speed)
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "copied", "c2")
	c1, copied, c2 = clusters[0], clusters[1], clusters[2]
	env.Create(t, c2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	c2.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), managerUser)
	env.Create(t, c2, &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}})
	env.RunManager(t, c2.Impersonate(managerUser), func(mgr ctrl.Manager) error {
		return source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder:              mgr.GetEventRecorder("sources"),
			SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace, LeasesNamespace: env.LeasesNamespace,
		}).Register(t.Context(), mgr)
	})
}

// identity is a source in c2, and the ClusterTarget of this name in the source and its copy.
type identity struct {
	name  string
	user  string
	login *rest.Config
}

// connected creates a service account and its ClusterSource in c2, and returns it once it has its Lease.
func connected(t *testing.T) identity {
	t.Helper()
	account := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.ReleaseNamespace, GenerateName: "source-"},
	}
	login := c2.Token(t, account)
	i := identity{account.Name, env.ServiceAccountUser(account.Namespace, account.Name), login}
	env.Create(t, c2, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: i.name},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: i.name},
			ClusterID:      clusterID,
		},
	})
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(i.user)}}
	env.WaitFor(t, c2, grant, func(grant *v1alpha1.SourceGrant) error {
		if grant.Status.Lease == nil {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		return nil
	})
	return i
}

func (i identity) key() types.NamespacedName { return types.NamespacedName{Name: i.name} }

// lease returns the Lease of the source, to be read.
func (i identity) lease() *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: env.Meta(env.LeasesNamespace, translate.SourceGrantName(i.user))}
}

// waitHolder waits until a replica of this name holds the Lease.
func (i identity) waitHolder(t *testing.T, name string) {
	t.Helper()
	env.WaitFor(t, c2, i.lease(), func(lease *coordinationv1.Lease) error {
		if h := lease.Spec.HolderIdentity; h == nil || !strings.HasPrefix(*h, name+"_") {
			return fmt.Errorf("the holder is %v, want %s", h, name)
		}
		return nil
	})
}

// target creates the ClusterTarget in a source, with its Secret.
func (i identity) target(t *testing.T, in *env.Cluster) *v1alpha1.ClusterTarget {
	t.Helper()
	env.CreateForTest(t, in, &corev1.Secret{
		ObjectMeta: env.Meta(metav1.NamespaceDefault, i.name),
		Data:       map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: i.login})},
	})
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: i.name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: metav1.NamespaceDefault, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: i.name},
	}
	env.Create(t, in, object)
	return object
}

// replica is a manager of a source, with the parts that connect targets.
type replica struct {
	registry *engage.Registry
	elected  <-chan struct{}
	// stop stops it. If it crashes, it leaves nothing to the next leader.
	stop func()
}

// run runs a replica. One that crashes releases nothing.
func run(t *testing.T, in *env.Cluster, name string, crashes bool) *replica {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(in.Config)
	env.Must(t, err)
	leases := clientset.CoordinationV1().Leases(metav1.NamespaceDefault)
	options := hold.Options{ClusterID: clusterID, Name: name, Clock: fast}
	if !crashes {
		options.OwnLease = hold.LeaderLease{Leases: leases, Name: election}
	}
	mgr, err := ctrl.NewManager(in.Config, managerOptions(clientset, name, crashes))
	env.Must(t, err)
	r := &replica{registry: engage.NewRegistry(), elected: mgr.Elected()}
	env.Must(t, r.register(mgr, in, hold.New(options)))
	r.stop = env.Run(t, mgr.Start)
	return r
}

func managerOptions(clientset kubernetes.Interface, name string, crashes bool) ctrl.Options {
	return ctrl.Options{
		Scheme:         env.Scheme(),
		Metrics:        metricsserver.Options{BindAddress: "0"},
		Controller:     config.Controller{SkipNameValidation: new(true)},
		LeaderElection: true,
		LeaderElectionResourceLockInterface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: election},
			Client:     clientset.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaderElectionReleaseOnCancel: !crashes,
		LeaseDuration:                 new(timeouts.LeaseDuration / speed),
		RenewDeadline:                 new(timeouts.LeaseRenewal / speed),
		RetryPeriod:                   new(timeouts.LeaseRetry / speed),
	}
}

func (r *replica) register(mgr ctrl.Manager, in *env.Cluster, holds *hold.Process) error {
	origin := translate.Source{ClusterID: clusterID}
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	targets, err := target.New(target.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: in.Config, Scheme: mgr.GetScheme(),
		Registry: r.registry, Source: origin, Clock: fast, Holds: holds, Addresses: inUse,
		Verifier: func() (gate.Verifier, error) { return env.Verifier{}, nil },
		Recorder: mgr.GetEventRecorder("targets"), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: in.Config, Registry: r.registry,
		Proxies: podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
		Source:  origin, Clock: clock.RealClock{},
		Recorder: mgr.GetEventRecorder("nodes"),
	})
	if err != nil {
		return err
	}
	r.registry.Observe(nodes)
	if err := targets.Register(mgr); err != nil {
		return err
	}
	return nodes.Register(mgr)
}

// present renews the Lease of c2's manager, with its rights, until stop is called.
func present(t *testing.T) (stop func()) {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(c2.Impersonate(managerUser))
	env.Must(t, err)
	host, err := os.Hostname()
	env.Must(t, err)
	p := &presence.Presence{
		Leases: clientset.CoordinationV1().Leases(env.LeasesNamespace), Holder: host, Clock: fast,
		Logger: ctrl.Log,
	}
	return env.Run(t, p.Start)
}

// waitCondition waits until a condition of a ClusterTarget has a reason.
func waitCondition(
	t *testing.T, in *env.Cluster, object *v1alpha1.ClusterTarget, kind, reason string,
) metav1.Condition {
	t.Helper()
	found := env.WaitFor(t, in, object, func(object *v1alpha1.ClusterTarget) error {
		c := meta.FindStatusCondition(object.Status.Conditions, kind)
		if c == nil || c.Reason != reason {
			return fmt.Errorf("condition %s is %+v, want %s", kind, c, reason)
		}
		return nil
	})
	return *meta.FindStatusCondition(found.Status.Conditions, kind)
}

func waitConnected(t *testing.T, in *env.Cluster, object *v1alpha1.ClusterTarget) {
	t.Helper()
	waitCondition(t, in, object, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected)
}

func waitHeldByOther(t *testing.T, in *env.Cluster, object *v1alpha1.ClusterTarget) {
	t.Helper()
	waitCondition(t, in, object, v1alpha1.ConditionConnected, v1alpha1.ReasonHeldByOther)
}

// virtualNode waits until the virtual node of a ClusterTarget passes the check.
func virtualNode(t *testing.T, in *env.Cluster, key types.NamespacedName, check func(*corev1.Node) error) {
	t.Helper()
	env.WaitFor(t, in, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: translate.VirtualNodeName(key)}}, check)
}

func readyIs(status corev1.ConditionStatus) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == status {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v, want Ready=%s", node.Status.Conditions, status)
	}
}

// engaged waits until a replica has engaged a target, and returns it.
func (r *replica) engaged(t *testing.T, key types.NamespacedName) *engage.Target {
	t.Helper()
	var found *engage.Target
	env.Eventually(t, func(context.Context) error {
		target, ok := r.registry.ByKey(key)
		if !ok || !target.Reachable() {
			return fmt.Errorf("%s is not engaged", key)
		}
		found = target
		return nil
	})
	return found
}

func (i identity) chaperon(namespace, name string) client.Object {
	return env.Chaperon(namespace, name, clusterID, i.key())
}
