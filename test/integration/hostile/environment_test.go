package hostile

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

const (
	sourceID = "id-of-c1"
	// speed is how many times faster the pauses and health checks of the parts under test are.
	speed = 50
	// heap is how much the heap of the whole process may grow during an attack.
	heap = 150 << 20
)

var (
	c1, c2 *env.Cluster
	// c2Source is a login with the rights of a source in c2.
	c2Source *rest.Config
	registry *engage.Registry
	metrics  = prometheus.NewRegistry()
	// honest is a ClusterTarget that leads to c2 itself.
	honest = types.NamespacedName{Name: "honest"}
)

// fastClock has timers and tickers that go fast, but shows the right time.
type fastClock struct{ clock.RealClock }

func (c fastClock) NewTimer(d time.Duration) clock.Timer   { return c.RealClock.NewTimer(d / speed) }
func (c fastClock) NewTicker(d time.Duration) clock.Ticker { return c.RealClock.NewTicker(d / speed) }

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "c2")
	c1, c2 = clusters[0], clusters[1]
	c2.InstallSourceRoles(t)
	c2.BindSource(t, "alice")
	c2Source = c2.User(t, "alice")
	env.Create(t, c2, &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}})
	registry = engage.NewRegistry()
	env.RunManager(t, c1.Config, register)
	lead(t, honest.Name, c2Source)
	waitForReason(t, honest, v1alpha1.ReasonConnected, "")
}

func register(mgr ctrl.Manager) error {
	keys := proof.Generate(time.Now())
	inUse, err := addresses.Register(mgr)
	if err != nil {
		return err
	}
	f := feedback.New(feedback.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
		Source:   translate.Source{ClusterID: sourceID, ClusterName: "c1"},
		Keys:     func() (*proof.Keys, error) { return keys, nil },
		Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
	})
	registry.Observe(f)
	if err := f.Register(context.TODO(), mgr); err != nil { //nolint:forbidigo // It is for the indexes only.
		return err
	}
	targets, err := target.New(target.Options{
		Client:    mgr.GetClient(),
		APIReader: mgr.GetAPIReader(),
		Config:    c1.Config,
		Scheme:    mgr.GetScheme(),
		Registry:  registry,
		Source:    translate.Source{ClusterID: sourceID, ClusterName: "c1"},
		Verifier:  func() (gate.Verifier, error) { return env.Verifier{}, nil },
		Addresses: inUse,
		Tenants:   tenants(),
		Clock:     fastClock{},
		Recorder:  mgr.GetEventRecorder("targets"),
		Metrics:   metrics,
	})
	if err != nil {
		return err
	}
	nodes, err := node.New(node.Options{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Config: c1.Config, Registry: registry,
		Source: translate.Source{ClusterID: sourceID}, Tenants: tenants(), Clock: clock.RealClock{},
		Address: "192.0.2.1",
	})
	if err != nil {
		return err
	}
	registry.Observe(nodes)
	return errors.Join(targets.Register(mgr), nodes.Register(mgr))
}

// tenants are limits that are enforced. All servers of the tests have loopback addresses.
func tenants() configv1alpha1.Tenants {
	return configv1alpha1.Tenants{Enforce: true, AllowLoopback: true, NodeLabels: []string{"example.com/*"}}
}

// lead creates a ClusterTarget that leads where the login leads.
func lead(t env.T, name string, login *rest.Config) types.NamespacedName {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: env.Meta("default", name)}
	secret.Data = map[string][]byte{"config": env.Kubeconfig(t, env.Context{Name: "x", Login: login})}
	env.CreateForTest(t, c1, secret)
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Spec.KubeconfigSecret = &v1alpha1.ClusterKubeconfigSecret{
		Namespace: "default", KubeconfigSecret: v1alpha1.KubeconfigSecret{Name: name},
	}
	env.CreateForTest(t, c1, object)
	return types.NamespacedName{Name: name}
}

// connect creates a ClusterTarget that leads to a server.
func connect(t *testing.T, s *server) types.NamespacedName {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-", ",", "").Replace(strings.ToLower(t.Name()))
	return lead(t, name[:min(len(name), 60)], s.login)
}

// waitForReason waits until the condition Connected of a ClusterTarget has a reason, and a message with a text.
func waitForReason(t env.T, key types.NamespacedName, reason, text string) {
	t.Helper()
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
	env.WaitFor(t, c1, object, func(found *v1alpha1.ClusterTarget) error {
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

// costsOthersNothing runs an attack, and fails the test if pods of the honest target are handled much slower
// meanwhile, if this target is engaged anew, or if memory is spent.
func costsOthersNothing(t *testing.T, attack func()) {
	t.Helper()
	pod := newPod(t)
	without := pod.roundTrips(t, func() bool { return true })
	was := engagedTarget(t, honest)
	stop := watchHeap(t)
	var over atomic.Bool
	go func() {
		defer over.Store(true) // Fatalf ends this goroutine, too.
		attack()
	}()
	during := pod.roundTrips(t, over.Load)
	stop()
	if engagedTarget(t, honest) != was {
		t.Error("the honest target was engaged anew")
	}
	t.Logf("without the attack: %s; during it: %s", without, during)
	if during > 10*without+time.Second {
		t.Errorf("pods of another target took %s instead of %s", during, without)
	}
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
		if top > before+heap {
			t.Errorf("the heap grew from %d to %d MiB", before>>20, top>>20)
		}
	}
}

// pod is a proxy that is bound to the honest target, with its PodChaperon.
type pod struct {
	proxy    *corev1.Pod
	chaperon *v1alpha1.PodChaperon
	trips    int
}

func newPod(t *testing.T) *pod {
	t.Helper()
	namespace := env.Namespace(t, env.Enabled(), c1, c2)
	proxy := env.Proxy(namespace, "web")
	env.CreateForTest(t, c1, proxy)
	chaperon := proved(t, proxy, honest)
	env.CreateForTest(t, c2, chaperon)
	env.Eventually(t, func(ctx context.Context) error { // Feedback would take the delegate for lost.
		return cached(ctx, engagedTarget(t, honest), chaperon)
	})
	env.Bind(t, c1, proxy, translate.VirtualNodeName(honest))
	return &pod{proxy: proxy, chaperon: chaperon}
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

// roundTrips returns the median time from a status of the delegate until the proxy has it: of twenty round trips, and
// of more until enough returns true.
func (p *pod) roundTrips(t *testing.T, enough func() bool) time.Duration {
	t.Helper()
	var times []time.Duration
	for len(times) < 20 || !enough() {
		p.trips++
		message := fmt.Sprintf("trip %d", p.trips)
		began := time.Now()
		env.ChangeStatus(t, c2, p.chaperon, func(c *v1alpha1.PodChaperon) {
			c.Status.Phase, c.Status.Message = corev1.PodRunning, message
		})
		env.WaitFor(t, c1, p.proxy, func(proxy *corev1.Pod) error {
			if proxy.Status.Message != message {
				return fmt.Errorf("its message is %q", proxy.Status.Message)
			}
			return nil
		})
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
