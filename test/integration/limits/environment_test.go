package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	// speed is how many times faster the clock of connections is.
	speed     = 3
	clusterID = "id-of-c1"
)

var (
	c1, c2, c3 *env.Cluster
	kubelets   = map[*env.Cluster]*kubelet{}
	keys       = proof.Generate(time.Now().Add(-time.Hour))
	// fast is the clock of the parts under test.
	fast = env.FastClock(speed)
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "c2", "c3")
	c1, c2, c3 = clusters[0], clusters[1], clusters[2]
	// The scheduler prefers c2, which has more room.
	for cluster, cpu := range map[*env.Cluster]string{c2: "10000", c3: "50"} {
		setUpTarget(t, cluster, cpu)
		lead(t, cluster, connected(t, cluster))
	}
}

// setUpTarget runs what a target runs, and shows its room.
func setUpTarget(t env.T, in *env.Cluster, cpu string) {
	t.Helper()
	user := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	env.Create(t, in, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	in.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), user)
	showRoom(t, in, cpu)
	env.RunManager(t, in.Impersonate(user), func(mgr ctrl.Manager) error {
		recorder := mgr.GetEventRecorder("chaperon")
		reconciler := chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, recorder, "")
		if err := reconciler.Register(mgr); err != nil {
			return err
		}
		return source.New(source.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Recorder:              mgr.GetEventRecorder("sources"),
			SourceClusterRoleName: env.SourceRole, LeavingClusterRoleName: env.LeavingRole,
			SummaryViewerClusterRoleName: env.SummaryViewerRole,
			EarlierClusterRoleName:       env.EarlierRole,
			ReleaseNamespace:             env.ReleaseNamespace, LeasesNamespace: env.LeasesNamespace,
		}).Register(t.Context(), mgr)
	})
	kubelets[in] = runKubelet(t, in)
}

func showRoom(t env.T, in *env.Cluster, cpu string) {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(cpu + "Gi"),
		corev1.ResourcePods: resource.MustParse(cpu + "00"),
	}
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	summary.Capacity, summary.Allocatable = room, room
	env.Create(t, in, summary)
	env.ChangeStatus(t, in, summary, func(summary *v1alpha1.ClusterSummary) {
		summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: 1, Classes: []v1alpha1.NodeClass{{
			Nodes: 1, Allocatable: room, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room}},
		}}}
	})
}

// connected creates a service account of the source in a target, and its ClusterSource. It returns its login once it
// has its Lease.
func connected(t env.T, in *env.Cluster) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, "source")}
	login := in.Token(t, account)
	env.Create(t, in, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: account.Name},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: account.Namespace, Name: account.Name},
			ClusterID:      clusterID,
		},
	})
	user := env.ServiceAccountUser(account.Namespace, account.Name)
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(user)}}
	env.WaitFor(t, in, grant, func(grant *v1alpha1.SourceGrant) error {
		if grant.Status.Lease == nil {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		return nil
	})
	return login
}

// lead creates the ClusterTarget, named after the cluster, that leads to a target.
func lead(t env.T, to *env.Cluster, login *rest.Config) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: env.Meta(metav1.NamespaceDefault, to.Name)}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})}
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: to.Name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: metav1.NamespaceDefault, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: to.Name},
	}
	env.Create(t, c1, secret, object)
}

// manager is the manager of the source.
type manager struct {
	registry *engage.Registry
	process  *hold.Process
	stop     func()
}

// runSource runs what a source runs until the test ends or stop is called.
func runSource(t env.T) *manager {
	t.Helper()
	m := &manager{
		registry: engage.NewRegistry(),
		process:  hold.New(hold.Options{ClusterID: clusterID, Name: "c1", Clock: fast}),
	}
	m.stop = env.RunManager(t, c1.Config, func(mgr ctrl.Manager) error { return m.register(t, mgr) })
	for _, cluster := range []*env.Cluster{c2, c3} {
		waitConnected(t, cluster, v1alpha1.ReasonConnected, "")
		waitReady(t, cluster, corev1.ConditionTrue)
	}
	return m
}

func (m *manager) register(t env.T, mgr ctrl.Manager) error {
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	origin := translate.Source{ClusterID: clusterID, ClusterName: "c1"}
	proxies := podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer())
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Source: origin,
		Proxies:  proxies,
		Keys:     func() (*proof.Keys, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
	})
	m.registry.Observe(f)
	if err := f.Register(mgr); err != nil {
		return err
	}
	scheduler, err := scheduling.New(scheduling.Options{
		Config: mgr.GetConfig(), Source: origin, Registry: m.registry, Strategy: configv1alpha1.Spread,
		Sign:    func(claim proof.Claim) (string, error) { return keys.Sign(claim), nil },
		Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(scheduler); err != nil {
		return err
	}
	return m.registerConnections(mgr, origin, inUse, proxies)
}

func (m *manager) registerConnections(
	mgr ctrl.Manager, origin translate.Source, inUse *addresses.InUse, proxies *podcache.ByNode,
) error {
	targets, err := target.New(target.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: c1.Config, Scheme: mgr.GetScheme(),
		Registry: m.registry, Source: origin, Clock: fast, Holds: m.process, Addresses: inUse,
		Verifier: func() (gate.Verifier, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("targets"), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: c1.Config, Registry: m.registry,
		Proxies: proxies,
		Source:  origin, Clock: clock.RealClock{},
		Recorder: mgr.GetEventRecorder("nodes"),
	})
	if err != nil {
		return err
	}
	m.registry.Observe(nodes)
	if err := targets.Register(mgr); err != nil {
		return err
	}
	return nodes.Register(mgr)
}
