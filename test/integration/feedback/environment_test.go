package feedback

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The tests share a source with one manager, and a target cluster.
var (
	source, target *env.Cluster
	registry       *engage.Registry
	// writes are the manager's writes to pods: method and path. conflicts are those that changed nothing, because the
	// manager's cache lagged. They are written again.
	writes, conflicts env.Journal
	// clock is the manager's clock.
	clock *clocktesting.FakePassiveClock
	// keys are the source's.
	keys *proof.Keys
)

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "target")
	source, target = clusters[0], clusters[1]
	clock = clocktesting.NewFakePassiveClock(time.Now())
	keys = proof.Generate(clock.Now())
	login := rest.CopyConfig(source.Config)
	login.Wrap(func(next http.RoundTripper) http.RoundTripper { return recorder{next} })
	var manager ctrl.Manager
	env.RunManager(t, login, func(mgr ctrl.Manager) error {
		manager = mgr
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		f := feedback.New(feedback.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock,
			Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
			Source:   translate.Source{ClusterID: "source"},
			Keys:     func() (*proof.Keys, error) { return keys, nil },
			Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
		})
		registry = engage.NewRegistry(f)
		return f.Register(mgr)
	})
	env.WaitForCache(t, manager.GetCache())
}

// recorder records writes to pods.
type recorder struct{ next http.RoundTripper }

func (r recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet || !strings.Contains(request.URL.Path, "/pods/") {
		return r.next.RoundTrip(request)
	}
	entry := request.Method + " " + request.URL.Path + " "
	writes.Add(entry)
	answer, err := r.next.RoundTrip(request)
	if err == nil && answer.StatusCode == http.StatusConflict {
		conflicts.Add(entry)
	}
	return answer, err
}

// writesOf returns how often the manager wrote to a pod: its status, and the rest. Conflicts do not count.
func writesOf(pod *corev1.Pod) (status, others int) {
	path := " /api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name
	count := func(path string) int { return len(writes.With(path)) - len(conflicts.With(path)) }
	return count(path + "/status "), count(path + " ")
}

// engaged engages the target c2 in a new namespace until the test ends. The manager's clock shows the time of the API
// servers: a deletion that they date otherwise counts as half done.
func engaged(t *testing.T) *env.Target {
	t.Helper()
	clock.SetTime(time.Now())
	c2 := newTarget(env.Namespace(t, nil, source, target), "c2")
	c2.Engage(t, registry)
	return c2
}

// newTarget returns a target that is not engaged.
func newTarget(namespace, name string) *env.Target {
	c := env.NewTarget(target, types.NamespacedName{Namespace: namespace, Name: name})
	c.Cached, c.Source, c.Verifier = true, source, keys
	return c
}

// createProxy creates a proxy in the namespace of a target.
func createProxy(t *testing.T, in *env.Target, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	proxy := env.Proxy(in.Key.Namespace, name, changes...)
	env.Create(t, source, proxy)
	return proxy
}

// place plays the scheduler: it creates the PodChaperon and binds the proxy.
func place(t *testing.T, proxy *corev1.Pod, in *env.Target) *v1alpha1.PodChaperon {
	t.Helper()
	c := createChaperon(t, proxy, in)
	env.Bind(t, source, proxy, in.NodeName)
	return c
}

// createChaperon creates the PodChaperon of a proxy, changed as asked for.
func createChaperon(
	t *testing.T, proxy *corev1.Pod, in *env.Target, changes ...func(*v1alpha1.PodChaperon),
) *v1alpha1.PodChaperon {
	t.Helper()
	c, err := translate.Chaperon(proxy, translate.Source{ClusterID: "source"}, translate.Destination{
		Target: in.Key, Proof: keys.Sign(proof.ClaimOf(proxy, in.Key)),
	})
	env.Must(t, err)
	for _, change := range changes {
		change(c)
	}
	env.Create(t, target, c)
	return c
}

// report plays the target's manager: it writes the delegate's status into the PodChaperon's.
func report(t *testing.T, c *v1alpha1.PodChaperon, phase corev1.PodPhase, conditions ...corev1.PodCondition) {
	t.Helper()
	env.ChangeStatus(t, target, c, func(c *v1alpha1.PodChaperon) {
		c.Status.Phase, c.Status.Conditions = phase, conditions
	})
}

// end plays the target: the delegate of a PodChaperon is gone, so it removes the PodChaperon.
func end(t *testing.T, c *v1alpha1.PodChaperon) {
	t.Helper()
	env.Must(t, client.IgnoreNotFound(target.Client.Delete(t.Context(), c)))
	env.RemoveFinalizers(t, target, c)
}

// run creates a proxy whose delegate runs in a target, and waits until the proxy shows this.
func run(t *testing.T, in *env.Target, name string, changes ...func(*corev1.Pod)) (*corev1.Pod, *v1alpha1.PodChaperon) {
	t.Helper()
	proxy := createProxy(t, in, name, changes...)
	c := place(t, proxy, in)
	report(t, c, corev1.PodRunning)
	waitForPhase(t, proxy, corev1.PodRunning)
	return proxy, c
}

// waitForPhase waits until a proxy shows a phase.
func waitForPhase(t *testing.T, proxy *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("the phase is %q, want %q", pod.Status.Phase, phase)
		}
		return nil
	})
}

// waitForEnding waits until the target's manager is asked to end the delegate, with this grace period.
func waitForEnding(t *testing.T, c *v1alpha1.PodChaperon, grace string) {
	t.Helper()
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		got, asked := c.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
		if !asked || got != grace || c.DeletionTimestamp != nil {
			return fmt.Errorf("asked %t, grace %q, deletion timestamp %v", asked, got, c.DeletionTimestamp)
		}
		return nil
	})
}

// waitForCollection waits until a PodChaperon is being deleted in the foreground.
func waitForCollection(t *testing.T, c *v1alpha1.PodChaperon) {
	t.Helper()
	env.WaitFor(t, target, c, func(c *v1alpha1.PodChaperon) error {
		if c.DeletionTimestamp == nil || !slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) {
			return fmt.Errorf("deletion timestamp %v, finalizers %v", c.DeletionTimestamp, c.Finalizers)
		}
		return nil
	})
}

// waitForWorkers waits until the workers of a target have done their earlier work: until a new proxy shows that its
// delegate runs.
func waitForWorkers(t *testing.T, in *env.Target) {
	t.Helper()
	run(t, in, "", func(pod *corev1.Pod) { pod.GenerateName = "marker-" })
}

// waitForExplanation waits for the event that explains why a proxy was deleted.
func waitForExplanation(t *testing.T, proxy *corev1.Pod, in *env.Target, reason string) {
	t.Helper()
	want := "Deleting this pod because " + reason + " (virtual node " + in.NodeName + ")"
	env.Eventually(t, func(context.Context) error {
		events := env.Events(t, source, proxy)
		for _, event := range events {
			if event.Reason == feedback.ReasonDelegateLost && event.Note == want {
				return nil
			}
		}
		return fmt.Errorf("no event %q in %v", want, events)
	})
}

// expectKept checks that a PodChaperon is not to end.
func expectKept(t *testing.T, c *v1alpha1.PodChaperon) {
	t.Helper()
	env.Get(t, target, c)
	if _, asked := c.Annotations[v1alpha1.AnnotationDeletionGracePeriod]; asked || c.DeletionTimestamp != nil {
		t.Errorf("PodChaperon %q is to end", c.Name)
	}
}
