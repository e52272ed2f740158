package hostile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/target"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "id-of-c1"
	// speed is how many times faster the pauses and health checks of the parts under test are.
	speed = 50
	// heap is how much the heap of the whole process may grow during an attack, beyond twice what it was. A target may
	// have 128 MiB of objects kept, and Go lets the heap become twice as large as all that is kept.
	heap = 256 << 20
)

var (
	c1, c2 *env.Cluster
	// control is a second source, which has the honest target only.
	control *env.Cluster
	// c2Source is a login with the rights of a source in c2.
	c2Source *rest.Config
	registry = engage.NewRegistry()
	metrics  = prometheus.NewRegistry()
	pods     *road
	// honest is a ClusterTarget of both sources that leads to c2 itself.
	honest = types.NamespacedName{Name: "honest"}
)

// fastClock has timers and tickers that go fast, but shows the right time.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / speed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "c2", "control")
	c1, c2, control = clusters[0], clusters[1], clusters[2]
	c2.InstallSourceRoles(t)
	c2.BindSource(t, "alice")
	c2Source = c2.User(t, "alice")
	createRoom(t)
	source{c1, registry, metrics}.run(t)
	source{control, engage.NewRegistry(), prometheus.NewRegistry()}.run(t)
	pods = newRoad(t)
}

// source is a source cluster, and the state of its manager.
type source struct {
	cluster  *env.Cluster
	registry *engage.Registry
	metrics  prometheus.Registerer
}

// run runs the manager of a source, and connects the honest target.
func (s source) run(t env.T) {
	t.Helper()
	env.RunManager(t, s.cluster.Config, s.register)
	lead(t, s.cluster, honest.Name, c2Source)
	waitForReasonIn(t, s.cluster, honest, v1alpha1.ReasonConnected, "")
}

func (s source) register(mgr ctrl.Manager) error {
	keys, registry := proof.Generate(time.Now()), s.registry
	itself := translate.Source{ClusterID: "id-of-" + s.cluster.Name, ClusterName: s.cluster.Name}
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
		Source:   itself,
		Keys:     func() (*proof.Keys, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
	})
	registry.Observe(f)
	if err := f.Register(mgr); err != nil {
		return err
	}
	scheduler, err := scheduling.New(scheduling.Options{
		Config: s.cluster.Config, Source: itself, Sign: env.Sign, Registry: registry,
		Strategy: configv1alpha1.Spread, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	if err := mgr.Add(scheduler); err != nil {
		return err
	}
	targets, err := target.New(target.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Config:    s.cluster.Config,
		Scheme:    mgr.GetScheme(),
		Registry:  registry,
		Source:    itself,
		Verifier:  func() (gate.Verifier, error) { return env.Verifier{}, nil },
		Addresses: inUse,
		Tenants:   tenants(),
		Clock:     fastClock{},
		Recorder:  mgr.GetEventRecorder("targets"),
		Metrics:   s.metrics,
	})
	if err != nil {
		return err
	}
	return targets.Register(mgr)
}

// tenants are limits that are enforced. All servers of the tests have loopback addresses.
func tenants() configv1alpha1.Tenants {
	return configv1alpha1.Tenants{Enforce: true, AllowLoopback: true}
}

// lead creates a ClusterTarget of a source that leads where the login leads.
func lead(t env.T, in *env.Cluster, name string, login *rest.Config) types.NamespacedName {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: env.Meta("default", name)}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})}
	env.CreateForTest(t, in, secret)
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: "default", KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name},
	}
	env.CreateForTest(t, in, object)
	return types.NamespacedName{Name: name}
}

// connect creates a ClusterTarget that leads to a server.
func connect(t *testing.T, s *server) types.NamespacedName {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(strings.ToLower(t.Name()))
	return lead(t, c1, name[:min(len(name), 60)], s.Login)
}

// waitForReason waits until the condition Connected of a ClusterTarget has a reason, and a message with a text.
func waitForReason(t env.T, key types.NamespacedName, reason, text string) {
	t.Helper()
	waitForReasonIn(t, c1, key, reason, text)
}

func waitForReasonIn(t env.T, in *env.Cluster, key types.NamespacedName, reason, text string) {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	env.WaitFor(t, in, object, func(found *v1alpha1.ClusterTarget) error {
		condition := meta.FindStatusCondition(found.Status.Conditions, v1alpha1.ConditionConnected)
		if condition == nil || condition.Reason != reason || !strings.Contains(condition.Message, text) {
			return fmt.Errorf("the condition is %+v, want %s and something about %q", condition, reason, text)
		}
		return nil
	})
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

// watchHeap returns a function that fails the test if the heap has grown too much since.
func watchHeap(t *testing.T) (stop func()) {
	t.Helper()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	before, top := stats.HeapAlloc, uint64(0)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			top = max(top, stats.HeapAlloc)
		}
	}()
	return func() {
		close(end)
		<-ended
		t.Logf("the heap grew from %d to at most %d MiB", before>>20, top>>20)
		if top > 2*before+heap {
			t.Errorf("the heap grew from %d to %d MiB", before>>20, top>>20)
		}
	}
}

// inventedChaperon returns the PodChaperon of a proxy that never existed, with a proof.
func inventedChaperon(t *testing.T, namespace, name string, key types.NamespacedName) *v1alpha1.PodChaperon {
	t.Helper()
	proxy := env.Proxy(namespace, name)
	proxy.UID = uuid.NewUUID()
	return proved(t, proxy, key)
}

// proved returns the PodChaperon of a proxy as the source would make it for a target.
func proved(t *testing.T, proxy *corev1.Pod, key types.NamespacedName) *v1alpha1.PodChaperon {
	t.Helper()
	signed, err := env.Sign(proof.ClaimOf(proxy, key))
	env.Must(t, err)
	chaperon, err := translate.Chaperon(
		proxy, translate.Source{ClusterID: sourceID}, translate.Destination{Target: key, Proof: signed},
	)
	env.Must(t, err)
	return chaperon
}
