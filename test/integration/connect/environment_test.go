package connect

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "id-of-c1"
	address  = "10.1.2.3"
	port     = 10250
	speed    = 20
)

var (
	c1, c2 *env.Cluster
	// c2Alice and c2Bob have the rights of a source in c2, c2Nobody has none.
	c2Alice, c2Bob, c2Nobody *rest.Config
	// suite lasts until all tests have run.
	suite env.T
	// stopManager stops the manager that runs in c1. registry is the registry of this manager.
	stopManager func()
	registry    *engage.Registry
)

// fastClock has timers and tickers that go fast, but shows the right time.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / speed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	suite = t
	clusters := env.Start(t, "c1", "c2")
	c1, c2 = clusters[0], clusters[1]
	c2Alice, c2Bob, c2Nobody = c2.User(t, "alice"), c2.User(t, "bob"), c2.User(t, "nobody")
	c2.InstallSourceRoles(t)
	c2.BindSource(t, "alice")
	c2.BindSource(t, "bob")
	env.Create(t, c2, &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}})
	publish(t, summary())
	startManager()
}

// startManager runs the controllers in c1 until stopManager is called, or all tests have run.
func startManager() {
	registry = engage.NewRegistry()
	stopManager = env.RunManager(suite, c1.Config, register)
}

func register(mgr ctrl.Manager) error {
	source := translate.Source{ClusterID: sourceID, ClusterName: "c1"}
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	targets, err := target.New(target.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Config:    c1.Config,
		Scheme:    mgr.GetScheme(),
		Registry:  registry,
		Source:    source,
		Verifier:  func() (gate.Verifier, error) { return env.Verifier{}, nil },
		Addresses: inUse,
		Clock:     fastClock{},
		Recorder:  mgr.GetEventRecorder("multicluster-scheduler"),
		Metrics:   prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client:    mgr.GetClient(),
		Proxies:   podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
		APIReader: mgr.GetAPIReader(),
		Config:    c1.Config,
		Registry:  registry,
		Source:    source,
		Clock:     clock.RealClock{},
		Address:   address,
		Port:      port,
		Recorder:  mgr.GetEventRecorder("multicluster-nodes"),
	})
	if err != nil {
		return err
	}
	registry.Observe(nodes)
	if err := targets.Register(mgr); err != nil {
		return err
	}
	return nodes.Register(mgr)
}

// summary returns the ClusterSummary of c2: 10 CPUs, of which pods request 4. Of these, 1 is for pods of this source.
// The nodes declare two features.
func summary() *v1alpha1.ClusterSummary {
	cpus := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	s := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	s.Labels = map[string]string{"zone": "a", "hidden": "b"}
	s.Capacity, s.Allocatable, s.Status.Requested = cpus("12"), cpus("10"), cpus("4")
	s.Status.DeclaredFeatures = []string{"FeatureA", "FeatureB"}
	s.Status.Sources = []v1alpha1.SourceUsage{
		{ClusterID: sourceID, Requested: cpus("1")}, {ClusterID: "another", Requested: cpus("2")},
	}
	return s
}

// publish makes s the summary of c2.
func publish(t env.T, s *v1alpha1.ClusterSummary) {
	t.Helper()
	current := s.DeepCopy()
	env.Change(t, c2, current, func(current *v1alpha1.ClusterSummary) {
		current.Labels, current.Capacity, current.Allocatable = s.Labels, s.Capacity, s.Allocatable
	})
	env.ChangeStatus(t, c2, current, func(current *v1alpha1.ClusterSummary) { current.Status = s.Status })
}

// kubeconfigSecret returns the Secret c2 of a namespace, with a kubeconfig for a login.
func kubeconfigSecret(t *testing.T, namespace string, login *rest.Config) *corev1.Secret {
	t.Helper()
	data := map[string][]byte{"config": kubeconfigFor(t, login)}
	return &corev1.Secret{ObjectMeta: env.Meta(namespace, "c2"), Data: data}
}

func kubeconfigFor(t *testing.T, login *rest.Config) []byte {
	t.Helper()
	return env.Kubeconfig(t, env.Context{Name: "x", Login: login})
}

// createClusterTarget creates a ClusterTarget for the Secret c2 of a namespace. Its name is the namespace's.
func createClusterTarget(t *testing.T, namespace string) types.NamespacedName {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: namespace, KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: "c2"},
	}
	object.Spec.ExcludedLabelsRegexp = "^hidden="
	env.Create(t, c1, object)
	return types.NamespacedName{Name: namespace}
}

// connect creates a namespace, a Secret with a kubeconfig for a login, and a ClusterTarget, and waits until it is
// ready.
func connect(t *testing.T, login *rest.Config) (types.NamespacedName, *corev1.Secret) {
	t.Helper()
	namespace := env.Namespace(t, nil, c1)
	secret := kubeconfigSecret(t, namespace, login)
	env.CreateForTest(t, c1, secret)
	key := createClusterTarget(t, namespace)
	waitReady(t, key)
	return key, secret
}

// connectTarget creates a Target for the Secret c2 of its namespace, and waits until it is ready.
func connectTarget(t *testing.T, namespace string, policy v1alpha1.PlacementPolicy) types.NamespacedName {
	t.Helper()
	object := &v1alpha1.Target{ObjectMeta: env.Meta(namespace, "t")}
	object.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{Name: "c2"}
	object.Spec.PlacementPolicy = policy
	env.CreateForTest(t, c1, object)
	key := client.ObjectKeyFromObject(object)
	waitReady(t, key)
	return key
}

// setLogin changes the kubeconfig in a Secret.
func setLogin(t *testing.T, secret *corev1.Secret, login *rest.Config) {
	t.Helper()
	env.Change(t, c1, secret, func(secret *corev1.Secret) { secret.Data["config"] = kubeconfigFor(t, login) })
}

// waitReady waits until a target and its virtual node are ready.
func waitReady(t *testing.T, key types.NamespacedName) {
	t.Helper()
	waitForCondition(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
}

// waitForCondition waits until a condition of a target has a reason and a message that contains text.
func waitForCondition(t *testing.T, key types.NamespacedName, conditionType, reason, text string) {
	t.Helper()
	env.WaitFor(t, c1, clusterTarget(key), func(target client.Object) error {
		condition := meta.FindStatusCondition(targetkind.Status(target).Conditions, conditionType)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, text) {
			return fmt.Errorf("condition %s is %+v, want reason %s and something about %q",
				conditionType, condition, reason, text)
		}
		if condition.ObservedGeneration != target.GetGeneration() {
			return fmt.Errorf("condition %s is of generation %d", conditionType, condition.ObservedGeneration)
		}
		return nil
	})
}

// clusterTarget returns the ClusterTarget, or the Target, of a key, to be read.
func clusterTarget(key types.NamespacedName) client.Object {
	object := targetkind.New(key)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return object
}

// virtualNode returns the virtual node of a target, to be read.
func virtualNode(key types.NamespacedName) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: translate.VirtualNodeName(key)}}
}

// waitForNode waits until the virtual node of a target is as check wants it, and returns it.
func waitForNode(t *testing.T, key types.NamespacedName, check func(*corev1.Node) error) *corev1.Node {
	t.Helper()
	return env.WaitFor(t, c1, virtualNode(key), check)
}

func ready(status corev1.ConditionStatus) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == status {
				return nil
			}
		}
		return fmt.Errorf("conditions are %+v, want Ready=%s", node.Status.Conditions, status)
	}
}

// createChaperon creates a PodChaperon in c2 as this source would for a target.
func createChaperon(t *testing.T, key types.NamespacedName, namespace, name string) *v1alpha1.PodChaperon {
	t.Helper()
	chaperon := env.Chaperon(namespace, name, sourceID, key)
	env.CreateForTest(t, c2, chaperon)
	return chaperon
}

// engagedTarget returns the engaged target of a key.
func engagedTarget(t *testing.T, key types.NamespacedName) *engage.Target {
	t.Helper()
	engaged, ok := registry.ByKey(key)
	if !ok {
		t.Fatalf("%s is not engaged", key)
	}
	return engaged
}

// waitForCache waits until the cache of a target holds one PodChaperon, stripped and indexed.
func waitForCache(t *testing.T, key types.NamespacedName, want *v1alpha1.PodChaperon) {
	t.Helper()
	env.Eventually(t, func(ctx context.Context) error { return holdsOnly(ctx, key, want) })
}
