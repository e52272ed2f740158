package identity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// Timers go faster than real ones by timerSpeed, and tickers by tickerSpeed: a health check takes place every 2.5 s, so
// that a test can say what happens between two of them.
const timerSpeed, tickerSpeed = 20, 4

var (
	// c1 is the source.
	c1, c2, c3 *env.Cluster
	// logins are those of the source in each cluster. It has two in c2.
	logins    map[*env.Cluster]*rest.Config
	otherInC2 *rest.Config
	// suite lasts until all tests have run.
	suite env.T
	// stopManager stops the manager that runs in c1. registry is the registry of this manager.
	stopManager func()
	registry    *engage.Registry
	keys        *proof.Keys
)

type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d / timerSpeed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker {
	return c.RealClock.NewTicker(d / tickerSpeed)
}

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	suite = t
	keys = proof.Generate(time.Now())
	clusters := env.Start(t, "c1", "c2", "c3")
	c1, c2, c3 = clusters[0], clusters[1], clusters[2]
	logins = map[*env.Cluster]*rest.Config{}
	for _, cluster := range clusters {
		logins[cluster] = cluster.User(t, "alice")
		cluster.InstallSourceRoles(t)
		cluster.BindSource(t, "alice")
		summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
		env.Create(t, cluster, summary)
		env.ChangeStatus(t, cluster, summary, func(s *v1alpha1.ClusterSummary) { s.Status.ClusterID = id(cluster) })
	}
	otherInC2 = c2.User(t, "bob")
	c2.BindSource(t, "bob")
	startManager()
}

func id(cluster *env.Cluster) string { return "id-of-" + cluster.Name }

// startManager runs the controllers in c1 until stopManager is called, or all tests have run.
func startManager() { stopManager = env.RunManager(suite, c1.Config, register) }

func register(mgr ctrl.Manager) error {
	source := translate.Source{ClusterID: id(c1), ClusterName: "c1"}
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	back := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Source: source,
		Proxies: podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
		Keys:    func() (*proof.Keys, error) { return keys, nil }, Addresses: inUse,
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(),
	})
	registry = engage.NewRegistry(back)
	targets, err := target.New(target.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: c1.Config, Scheme: mgr.GetScheme(),
		Registry: registry, Source: source, Clock: fastClock{}, Addresses: inUse,
		Verifier: func() (gate.Verifier, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("multicluster-scheduler"), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	if err := back.Register(mgr); err != nil {
		return err
	}
	return targets.Register(mgr)
}

// site is a ClusterTarget with its Secret.
type site struct {
	*v1alpha1.ClusterTarget

	secret *corev1.Secret
}

// createTarget creates a ClusterTarget for a login, whose Secret is in a namespace.
func createTarget(
	t *testing.T, namespace, name string, login *rest.Config, changes ...func(*v1alpha1.ClusterTarget),
) *site {
	t.Helper()
	s := &site{
		ClusterTarget: &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: namespace + "-" + name}},
		secret:        secretOf(t, namespace, name, login),
	}
	s.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name},
	}
	for _, change := range changes {
		change(s.ClusterTarget)
	}
	env.CreateForTest(t, c1, s.secret, s.ClusterTarget)
	return s
}

func secretOf(t *testing.T, namespace, name string, login *rest.Config) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: env.Meta(namespace, name),
		Data:       map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})},
	}
}

// connect creates a ClusterTarget for a login, and waits until it is connected.
func connect(t *testing.T, namespace, name string, login *rest.Config) *site {
	t.Helper()
	s := createTarget(t, namespace, name, login)
	s.waitConnected(t)
	return s
}

func (s *site) key() types.NamespacedName { return types.NamespacedName{Name: s.Name} }

// setLogin changes the kubeconfig in the Secret.
func (s *site) setLogin(t *testing.T, login *rest.Config) {
	t.Helper()
	data := secretOf(t, s.secret.Namespace, s.secret.Name, login).Data
	env.Change(t, c1, s.secret, func(secret *corev1.Secret) { secret.Data = data })
}

// accept says that the target is this cluster from now on.
func (s *site) accept(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	env.Change(t, c1, s.ClusterTarget, func(target *v1alpha1.ClusterTarget) { target.Spec.ClusterID = id(cluster) })
}

func (s *site) waitConnected(t *testing.T) {
	t.Helper()
	s.waitFor(t, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "connected to")
}

func (s *site) waitOther(t *testing.T, seen *env.Cluster) {
	t.Helper()
	s.waitFor(t, v1alpha1.ConditionConnected, v1alpha1.ReasonOtherCluster, "set spec.clusterID to "+id(seen))
	if _, engaged := registry.ByKey(s.key()); engaged {
		t.Errorf("target %s is engaged", s.Name)
	}
}

// waitFor waits until a condition has a reason, and a message that contains a text.
func (s *site) waitFor(t *testing.T, conditionType, reason, text string) {
	t.Helper()
	env.WaitFor(t, c1, s.ClusterTarget, func(target *v1alpha1.ClusterTarget) error {
		condition := meta.FindStatusCondition(target.Status.Conditions, conditionType)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, text) ||
			condition.ObservedGeneration != target.Generation {
			return fmt.Errorf("condition %s is %+v, want reason %s and %q", conditionType, condition, reason, text)
		}
		return nil
	})
}

func (s *site) engaged(t *testing.T) *engage.Target {
	t.Helper()
	engaged, ok := registry.ByKey(s.key())
	if !ok {
		t.Fatalf("target %s is not engaged", s.Name)
	}
	return engaged
}

// delegated is a proxy, and its PodChaperon in a cluster, both as they were when the delegate began to run.
type delegated struct {
	proxy    *corev1.Pod
	chaperon *v1alpha1.PodChaperon
	cluster  *env.Cluster
}

// run plays the scheduler and the target's manager: a proxy runs in the target, which is a cluster.
func (s *site) run(t *testing.T, cluster *env.Cluster) *delegated {
	t.Helper()
	proxy := env.Proxy(s.secret.Namespace, s.secret.Name)
	env.Create(t, c1, proxy)
	chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: id(c1)}, translate.Destination{
		Target: s.key(), Proof: keys.Sign(proof.ClaimOf(proxy, s.key())),
	})
	env.Must(t, err)
	env.Create(t, cluster, chaperon)
	env.Bind(t, c1, proxy, translate.VirtualNodeName(s.key()))
	d := &delegated{proxy: proxy, chaperon: chaperon, cluster: cluster}
	d.report(t, corev1.PodRunning)
	return d
}

// report reports a phase of the delegate, and waits until the proxy shows it.
func (d *delegated) report(t *testing.T, phase corev1.PodPhase) {
	t.Helper()
	env.ChangeStatus(t, d.cluster, d.chaperon, func(c *v1alpha1.PodChaperon) { c.Status.Phase = phase })
	env.WaitFor(t, c1, d.proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("the phase is %s", pod.Status.Phase)
		}
		return nil
	})
}

// expectKept checks that nobody has deleted the proxy, and that nobody has touched the PodChaperon.
func (d *delegated) expectKept(t *testing.T) {
	t.Helper()
	proxy := env.Get(t, c1, d.proxy.DeepCopy())
	if proxy.UID != d.proxy.UID || proxy.DeletionTimestamp != nil {
		t.Errorf("proxy %s was deleted", proxy.Name)
	}
	d.expectUntouched(t)
}

func (d *delegated) expectUntouched(t *testing.T) {
	t.Helper()
	chaperon := env.Get(t, d.cluster, d.chaperon.DeepCopy())
	env.ExpectEqual(t, "version of the PodChaperon", d.chaperon.ResourceVersion, chaperon.ResourceVersion)
}
