package lifecycle

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// The tests share a source and a target, each with one manager.
var (
	source, target *env.Cluster
	registry       *engage.Registry
	keys           *proof.Keys
)

// wanted are the annotations of delegates that proxies take over.
var wanted = []string{"cni.io/*"}

var us = translate.Source{ClusterID: "source"}

func TestMain(m *testing.M) { env.Main(m, setUp) }

func setUp(t env.T) {
	clusters := env.Start(t, "source", "target")
	source, target = clusters[0], clusters[1]
	keys = proof.Generate(time.Now())
	env.RunManager(t, target.Config, func(mgr ctrl.Manager) error {
		recorder := mgr.GetEventRecorder("chaperon")
		return chaperon.New(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, recorder, "").Register(mgr)
	})
	var manager ctrl.Manager
	env.RunManager(t, source.Config, func(mgr ctrl.Manager) error {
		manager = mgr
		inUse, err := addresses.Register(mgr)
		if err != nil {
			return err
		}
		f := feedback.New(feedback.Options{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clock: clock.RealClock{}, Source: us,
			Proxies:  podcache.NewByNode(mgr.GetClient(), mgr.GetFieldIndexer()),
			Keys:     func() (*proof.Keys, error) { return keys, nil },
			Recorder: mgr.GetEventRecorder("feedback"), Logger: mgr.GetLogger(), Addresses: inUse,
			Annotations: wanted,
		})
		registry = engage.NewRegistry(f)
		return f.Register(mgr)
	})
	env.WaitForCache(t, manager.GetCache())
}

// engaged engages the target c2 in a new namespace until the test ends.
func engaged(t *testing.T, customize ...func(*engage.Target)) *env.Target {
	t.Helper()
	namespace := env.Namespace(t, nil, source, target)
	env.Create(t, target, &corev1.ServiceAccount{ObjectMeta: env.Meta(namespace, "default")})
	c2 := env.NewTarget(target, types.NamespacedName{Namespace: namespace, Name: "c2"})
	c2.Cached, c2.Source, c2.Verifier = true, source, keys
	c2.Customize = func(e *engage.Target) {
		for _, change := range customize {
			change(e)
		}
	}
	c2.Engage(t, registry)
	return c2
}

// place plays the scheduler of the source: it creates a proxy and its PodChaperon, and binds the proxy. It returns the
// delegate.
func place(t *testing.T, in *env.Target, name string, changes ...func(*corev1.Pod)) (proxy, delegate *corev1.Pod) {
	t.Helper()
	proxy = env.Proxy(in.Key.Namespace, name, changes...)
	return proxy, placeAs(t, in, proxy, func(*corev1.PodSpec) {})
}

// placeAs does the same with a delegate that the target's webhooks change.
func placeAs(t *testing.T, in *env.Target, proxy *corev1.Pod, admit func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	env.Create(t, source, proxy)
	c, err := translate.Chaperon(proxy, us, translate.Destination{
		Target: in.Key, Proof: keys.Sign(proof.ClaimOf(proxy, in.Key)), Annotations: wanted,
	})
	env.Must(t, err)
	admit(&c.Spec)
	env.Create(t, target, c)
	env.Bind(t, source, proxy, in.NodeName)
	delegate := &corev1.Pod{ObjectMeta: env.Meta(c.Namespace, c.Name)}
	return env.WaitFor(t, target, delegate, func(*corev1.Pod) error { return nil })
}

// run plays the scheduler and a kubelet of the target, too. It waits until the proxy shows that the delegate runs.
func run(t *testing.T, in *env.Target, name string, changes ...func(*corev1.Pod)) (proxy, delegate *corev1.Pod) {
	t.Helper()
	proxy, delegate = place(t, in, name, changes...)
	begin(t, proxy, delegate)
	return proxy, delegate
}

func begin(t *testing.T, proxy, delegate *corev1.Pod) {
	t.Helper()
	env.Bind(t, target, delegate, "node")
	report(t, delegate, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	waitForPhase(t, proxy, corev1.PodRunning)
}

// report plays a kubelet of the target: it writes the status of a delegate with one container.
func report(t *testing.T, delegate *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	t.Helper()
	env.ChangeStatus(t, target, delegate, func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.StartTime = phase, &metav1.Time{Time: time.Now()}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Image: "app", State: state}}
	})
}

// exited is the state of a container that has ended.
func exited(code int32) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
}

// confirm plays a kubelet of the target whose containers have ended: it confirms the deletion of a delegate.
func confirm(t *testing.T, delegate *corev1.Pod) {
	t.Helper()
	env.Delete(t, target, delegate, client.GracePeriodSeconds(0), client.Preconditions{UID: &delegate.UID})
}

// collect plays the target's garbage collector for a delegate that is gone. The source asks for it if the target's
// manager has had its time, which happens on a busy machine.
func collect(t *testing.T, delegate *corev1.Pod) {
	t.Helper()
	chaperon := &v1alpha1.PodChaperon{}
	err := target.Client.Get(t.Context(), client.ObjectKeyFromObject(delegate), chaperon)
	if err == nil && chaperon.DeletionTimestamp != nil {
		env.RemoveFinalizers(t, target, chaperon)
	}
}

func waitForPhase(t *testing.T, proxy *corev1.Pod, phase corev1.PodPhase) {
	t.Helper()
	env.WaitFor(t, source, proxy, func(pod *corev1.Pod) error {
		if pod.Status.Phase != phase {
			return fmt.Errorf("the phase is %q, want %q", pod.Status.Phase, phase)
		}
		return nil
	})
}

// waitForDeletion waits until a pod is being deleted with a grace period.
func waitForDeletion(t *testing.T, in *env.Cluster, pod *corev1.Pod, grace int64) {
	t.Helper()
	env.WaitFor(t, in, pod, func(pod *corev1.Pod) error {
		if got := pod.DeletionGracePeriodSeconds; pod.DeletionTimestamp == nil || got == nil || *got != grace {
			return fmt.Errorf("deletion timestamp %v, grace period %v, want %d", pod.DeletionTimestamp, got, grace)
		}
		return nil
	})
}

// chaperonOf returns the PodChaperon of a delegate.
func chaperonOf(t *testing.T, delegate *corev1.Pod) *v1alpha1.PodChaperon {
	t.Helper()
	return env.Get(t, target, &v1alpha1.PodChaperon{ObjectMeta: env.Meta(delegate.Namespace, delegate.Name)})
}
