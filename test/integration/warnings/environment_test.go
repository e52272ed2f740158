package warnings

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/warnings"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

var (
	c1, c2 *env.Cluster
	keys   *proof.Keys
	// writes are those of the target's manager to the status of PodChaperons, and those of the source's to pods.
	writes env.Journal
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "c1", "c2")
	c1, c2 = clusters[0], clusters[1]
	keys = proof.Generate(time.Now())
	manager := env.ServiceAccountUser(env.ReleaseNamespace, env.ManagerAccount)
	env.Create(t, c2, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.ReleaseNamespace}})
	c2.Install(t, env.Render(t, env.Release, "--show-only", "templates/rbac/*.yaml", "--set", "roles.source=false"),
		manager)
	login := env.Intercept(c2.Impersonate(manager), noteWrite)
	env.RunManager(t, login, func(mgr ctrl.Manager) error { return registerTarget(mgr, login) })
}

func noteWrite(r *http.Request) *http.Response {
	path := r.URL.Path
	if r.Method != http.MethodGet && (strings.Contains(path, "/pods/") || strings.Contains(path, "/podchaperons/")) {
		writes.Add(path + " ")
	}
	return nil
}

func registerTarget(mgr ctrl.Manager, login *rest.Config) error {
	clientset, err := kubernetes.NewForConfig(login)
	if err != nil {
		return err
	}
	delegates := chaperon.New(
		mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, mgr.GetEventRecorder("delegates"), "")
	watch := warnings.New(warnings.Options{
		Pods: mgr.GetClient(), Events: clientset.CoreV1().Events(metav1.NamespaceAll), Wake: delegates.Wake,
		Clock: clock.RealClock{}, Logger: mgr.GetLogger(),
	})
	delegates.ShowWarnings(watch)
	if err := mgr.Add(watch); err != nil {
		return err
	}
	return delegates.Register(mgr)
}

// lead runs a manager of the source, which engages the target, until the test ends or stop is called.
func lead(t *testing.T, namespace string) (in *env.Target, stop func()) {
	t.Helper()
	var registry *engage.Registry
	stopManager := env.RunManager(t, env.Intercept(c1.Config, noteWrite), func(mgr ctrl.Manager) error {
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		f := feedback.New(feedback.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{},
			Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
			Source:   translate.Source{ClusterID: "c1"},
			Keys:     func() (*proof.Keys, error) { return keys, nil },
			Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
		})
		registry = engage.NewRegistry(f)
		return f.Register(mgr)
	})
	in = env.NewTarget(c2, types.NamespacedName{Namespace: namespace, Name: "c2"})
	in.Cached, in.Source, in.Verifier = true, c1, keys
	in.Engage(t, registry)
	return in, func() {
		in.Disengage()
		stopManager()
	}
}

// newNamespace creates a namespace in both clusters, with the service account that a controller would create.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := env.Namespace(t, nil, c1, c2)
	env.Create(t, c2, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "default")})
	return namespace
}

// run creates a proxy, and waits until it shows that its delegate runs.
func run(t *testing.T, in *env.Target, name string) (proxy, delegate *corev1.Pod) {
	t.Helper()
	proxy = env.Proxy(in.Key.Namespace, name)
	env.Create(t, c1, proxy)
	c, err := translate.Chaperon(proxy, translate.Source{ClusterID: "c1"}, translate.Destination{
		Target: in.Key, Proof: keys.Sign(proof.ClaimOf(proxy, in.Key)),
	})
	env.Must(t, err)
	env.Create(t, c2, c)
	env.Bind(t, c1, proxy, in.NodeName)
	delegate = env.WaitFor(t, c2, &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)},
		func(*corev1.Pod) error { return nil })
	env.Bind(t, c2, delegate, "node")
	env.ChangeStatus(t, c2, delegate, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodRunning })
	env.WaitFor(t, c1, proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %q", pod.Status.Phase)
		}
		return nil
	})
	return proxy, delegate
}

// record plays a kubelet's recorder: an event about a pod happens, for the first time or again.
func record(t *testing.T, about *corev1.Pod, eventType, reason, message string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta: env.Meta(about.Namespace, about.Name+"."+strings.ToLower(reason)),
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: about.Namespace, Name: about.Name, UID: about.UID,
		},
		Source: corev1.EventSource{Component: "kubelet"}, Type: eventType, Reason: reason, Message: message,
		LastTimestamp: metav1.Now(), Count: 1,
	}
	if !env.Exists(t, c2, event.DeepCopy()) {
		env.Create(t, c2, event)
		return
	}
	env.Change(t, c2, event, func(e *corev1.Event) {
		e.Message, e.LastTimestamp, e.Count = message, metav1.Now(), e.Count+1
	})
}

// warned returns the events of a proxy with a reason.
func warned(t *testing.T, proxy *corev1.Pod, reason string) []eventsv1.Event {
	t.Helper()
	var found []eventsv1.Event
	for _, event := range env.Events(t, c1, proxy) {
		if event.Reason == reason {
			found = append(found, event)
		}
	}
	return found
}

// writesOf returns how often the managers wrote a delegate's PodChaperon, and the proxy.
func writesOf(proxy, delegate *corev1.Pod) (chaperon, pod int) {
	of := "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/" + delegate.Namespace
	return len(writes.With(of + "/podchaperons/" + delegate.Name + "/status ")),
		len(writes.With("/api/v1/namespaces/" + proxy.Namespace + "/pods/" + proxy.Name + "/"))
}

// waitUntil waits until check returns nil.
func waitUntil(t *testing.T, check func() error) {
	t.Helper()
	env.Eventually(t, func(context.Context) error { return check() })
}
