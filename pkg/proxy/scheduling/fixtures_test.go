package scheduling

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// The fixtures of package schedulingtest, by shorter names.
var (
	eventually  = waittest.Eventually
	list        = schedulingtest.List
	newChaperon = schedulingtest.NewChaperon
	newNode     = schedulingtest.NewNode
	newPod      = schedulingtest.NewPod
	resources   = schedulingtest.Resources
	summary     = schedulingtest.Summary
)

// receive returns what another goroutine sends, and ends the test if nothing comes.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return waittest.Receive(t, what, from)
}

// world is a plugin with engaged targets whose API servers are fakes.
type world struct {
	*plugin
	clock    schedulingtest.Clock
	registry *engage.Registry
}

func newWorld() *world {
	w := &world{clock: schedulingtest.NewClock(), registry: engage.NewRegistry()}
	w.plugin = newPlugin(Options{
		Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
	})
	w.namespaces, w.nodes = namespaces("default"), nodes()
	return w
}

func nodes(all ...*corev1.Node) corelisters.NodeLister {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for _, node := range all {
		_ = indexer.Add(node)
	}
	return corelisters.NewNodeLister(indexer)
}

// namespaces are one that is enabled, and one that is not.
func namespaces(name string) corelisters.NamespaceLister {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	_ = indexer.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1alpha1.LabelEnabledNamespace: v1alpha1.LabelEnabledNamespaceValue},
	}})
	_ = indexer.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	return corelisters.NewNamespaceLister(indexer)
}

// engage a target that is reachable and has room, and whose API server does what funcs do.
func (w *world) engage(t testing.TB, name string, funcs interceptor.Funcs) *target {
	t.Helper()
	engaged := schedulingtest.Engage(t, w.registry, name, funcs)
	added := &target{Target: placement.NewTarget(t.Context(), engaged, "source", w.clock)}
	added.Ledger.Update(summary(resources("8", "64Gi")))
	w.targets.add(added)
	return added
}

// try puts a pod into a trial.
func (w *world) try(t testing.TB, pod *corev1.Pod, trial attempts.Trial) {
	t.Helper()
	if _, err := w.attempts.Of(pod); err != nil {
		t.Fatal(err)
	}
	w.attempts.Try(pod.UID, trial, map[string]attempts.Prospect{trial.NodeName: trial.Prospect})
}

// disturb notes that the target of a node has preempted other pods for the pod.
func (w *world) disturb(pod *corev1.Pod, nodeName string) {
	w.attempts.Failed(pod, attempts.Failure{NodeName: nodeName, Preempts: true})
}

// refuse notes that the target of a node has refused the pod.
func (w *world) refuse(pod *corev1.Pod, nodeName string, backOff attempts.BackOff, reason string) {
	w.attempts.Failed(pod, attempts.Failure{NodeName: nodeName, Refused: true, Reason: reason, BackOff: backOff})
}

// playedQueue notes the pods with which it is done, those that are woken, and what else wakes pods.
type playedQueue struct {
	queue.SchedulingQueue

	done []types.UID

	mu        sync.Mutex // guards the fields below
	activated []types.UID
	events    []any
}

func (q *playedQueue) Done(pod types.UID) { q.done = append(q.done, pod) }

func (q *playedQueue) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, pod := range pods {
		q.activated = append(q.activated, pod.UID)
	}
}

func (q *playedQueue) MoveAllToActiveOrBackoffQueue(
	_ klog.Logger, _ fwk.ClusterEvent, _, object any, _ queue.PreEnqueueCheck,
) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = append(q.events, object)
}

// count returns how many events had this object.
func (q *playedQueue) count(object any) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, o := range q.events {
		if o == object {
			n++
		}
	}
	return n
}

// woken returns the pods that were woken by their names.
func (q *playedQueue) woken() []types.UID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.activated)
}

// playedBinder notes the nodes of pods.
type playedBinder struct {
	fwk.BindPlugin

	nodes []string
	err   error
}

func (b *playedBinder) Bind(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node string) *fwk.Status {
	b.nodes = append(b.nodes, node)
	return fwk.AsStatus(b.err)
}
