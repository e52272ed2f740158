package slow

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
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

var (
	// c1 is the source, and control the one of the control group. c2 is the target.
	c1, control, c2 *env.Cluster
	registry        = engage.NewRegistry()
	// managerUser is the user name of the target's manager.
	managerUser = env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	healthy     = types.NamespacedName{Name: "healthy"}
	pods        *road
	// fast is the clock of the parts under test.
	fast = env.FastClock(speed)
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "control", "c2")
	c1, control, c2 = clusters[0], clusters[1], clusters[2]
	setUpTarget(t)
	login := connected(t, healthy.Name)
	for _, in := range []origin{{c1, registry}, {control, engage.NewRegistry()}} {
		env.RunManager(t, in.cluster.Config, in.register)
		// The second source has its own user, because two clusters must not share a Lease.
		if in.cluster == control {
			login = connectedAs(t, "control", in.id())
		}
		lead(t, in.cluster, healthy.Name, login)
		waitCondition(t, in.cluster, healthy, v1alpha1.ConditionReady, metav1.ConditionTrue)
	}
	pods = newRoad(t)
	noteStates(t)
}

// setUpTarget creates the rights, the room and the Leases of c2.
func setUpTarget(t env.T) {
	t.Helper()
	env.Create(t, c2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	c2.Install(t, env.Render(t, env.Release, "--show-only", "templates/policy.yaml",
		"--show-only", "templates/rbac/*.yaml", "--set", "rbac.selfTarget=false"), managerUser)
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourcePods: resource.MustParse("100000"),
	}
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	summary.Capacity, summary.Allocatable = room, room
	env.Create(t, c2, summary)
	env.ChangeStatus(t, c2, summary, func(summary *v1alpha1.ClusterSummary) {
		summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: 1, Classes: []v1alpha1.NodeClass{{
			Nodes: 1, Allocatable: room, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room}},
		}}}
	})
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

// connected returns a login of c1 in c2.
func connected(t env.T, name string) *rest.Config {
	t.Helper()
	return connectedAs(t, name, origin{cluster: c1}.id())
}

// connectedAs creates a service account of a source in c2, and its ClusterSource, and returns its login once it has its
// Lease.
func connectedAs(t env.T, name, clusterID string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: env.Meta(env.ReleaseNamespace, name)}
	login := c2.Token(t, account)
	env.Create(t, c2, &v1alpha1.ClusterSource{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ClusterSourceSpec{
			ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: env.ReleaseNamespace, Name: name},
			ClusterID:      clusterID,
		},
	})
	user := env.ServiceAccountUser(account.Namespace, account.Name)
	grant := &v1alpha1.SourceGrant{ObjectMeta: metav1.ObjectMeta{Name: translate.SourceGrantName(user)}}
	env.WaitFor(t, c2, grant, func(grant *v1alpha1.SourceGrant) error {
		if grant.Status.Lease == nil {
			return fmt.Errorf("status is %+v", grant.Status)
		}
		return nil
	})
	return login
}

// origin is a source cluster, and the state of its manager.
type origin struct {
	cluster  *env.Cluster
	registry *engage.Registry
}

func (o origin) id() string { return "id-of-" + o.cluster.Name }

func (o origin) register(mgr ctrl.Manager) error {
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	proxies := podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer())
	if err := o.registerPods(mgr, inUse, proxies); err != nil {
		return err
	}
	holds := hold.New(hold.Options{ClusterID: o.id(), Name: o.cluster.Name, Clock: fast})
	targets, err := target.New(target.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: o.cluster.Config, Scheme: mgr.GetScheme(),
		Registry: o.registry, Source: o.itself(), Clock: fast, Holds: holds, Addresses: inUse,
		Verifier: func() (gate.Verifier, error) { return env.Verifier{}, nil },
		Recorder: mgr.GetEventRecorder("targets"), Metrics: prometheus.NewRegistry(),
		Tenants: configv1alpha1.Tenants{AllowLoopback: true},
	})
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: o.cluster.Config, Registry: o.registry,
		Proxies: proxies,
		Source:  o.itself(), Clock: clock.RealClock{},
		Recorder: mgr.GetEventRecorder("nodes"),
	})
	if err != nil {
		return err
	}
	o.registry.Observe(nodes)
	if err := targets.Register(mgr); err != nil {
		return err
	}
	return nodes.Register(mgr)
}

func (o origin) itself() translate.Source {
	return translate.Source{ClusterID: o.id(), ClusterName: o.cluster.Name}
}

// registerPods registers the parts that place pods and show their status.
func (o origin) registerPods(mgr ctrl.Manager, inUse *addresses.InUse, proxies *podcache.ByNode) error {
	keys := proof.Generate(time.Now())
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Proxies:  proxies,
		Source:   o.itself(),
		Keys:     func() (*proof.Keys, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
	})
	o.registry.Observe(f)
	if err := f.Register(mgr); err != nil {
		return err
	}
	scheduler, err := scheduling.New(scheduling.Options{
		Config: o.cluster.Config, Source: o.itself(), Sign: env.Sign, Registry: o.registry,
		Strategy: configv1alpha1.Spread, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	return mgr.Add(scheduler)
}
