package scheduling

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// world is a plugin with engaged targets whose API servers are fakes.
type world struct {
	*plugin
	clock    fakeClock
	registry *engage.Registry
	lifted   chan types.UID
	// changed are the targets for which pods were woken.
	changed []string
}

// fakeClock calls functions in goroutines of their own, as clocks do, where the fake holds its lock.
type fakeClock struct{ *testingclock.FakeClock }

func (c fakeClock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.FakeClock.AfterFunc(d, func() { go f() })
}

func newWorld() *world {
	w := &world{
		clock:    fakeClock{testingclock.NewFakeClock(time.Unix(0, 0))},
		registry: engage.NewRegistry(),
		lifted:   make(chan types.UID, 10),
	}
	w.plugin = newPlugin(
		Options{Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock},
		func(_ types.NamespacedName, pod types.UID) { w.lifted <- pod },
		func(t *target) { w.changed = append(w.changed, t.name()) },
	)
	w.namespaces = namespaces("default")
	return w
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
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(
		scheme,
	).WithStatusSubresource(
		&v1alpha1.PodChaperon{},
	).WithInterceptorFuncs(
		funcs,
	).Build()
	engaged := &engage.Target{
		Key: types.NamespacedName{Name: name}, NodeName: "admiralty-" + name, Hash: name, Client: c, APIReader: c,
	}
	if err := w.registry.Engage(t.Context(), engaged); err != nil {
		t.Fatal(err)
	}
	added := newTarget(t.Context(), engaged, "source", w.clock)
	added.ledger.Update(summary(resources("8", "64Gi")))
	w.targets.add(added)
	return added
}

// summary of a target with one class of nodes, one node for each that is free.
func summary(free ...corev1.ResourceList) *v1alpha1.ClusterSummary {
	class := v1alpha1.NodeClass{Nodes: int32(len(free)), Allocatable: resources("64", "256Gi")}
	for _, f := range free {
		class.Free = append(class.Free, v1alpha1.FreeNodes{Nodes: 1, Resources: f})
	}
	return &v1alpha1.ClusterSummary{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName},
		Status:     v1alpha1.ClusterSummaryStatus{Nodes: class.Nodes, Classes: []v1alpha1.NodeClass{class}},
	}
}

// list of quantities by name.
func list(namesAndQuantities ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(namesAndQuantities); i += 2 {
		l[corev1.ResourceName(namesAndQuantities[i])] = resource.MustParse(namesAndQuantities[i+1])
	}
	return l
}

func resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse("500"),
	}
}

func newPod(uid types.UID, requests corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "default", UID: uid,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName,
			Containers:    []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
	}
}

func newChaperon(uid, proxy types.UID, change ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Name: "web-" + string(
			uid,
		),
		Namespace: "default",
		UID:       uid,
		Labels:    map[string]string{v1alpha1.LabelParentUID: string(proxy)},
	}}
	for _, f := range change {
		f(chaperon)
	}
	return chaperon
}

func with(
	kind corev1.PodConditionType,
	status corev1.ConditionStatus,
	reason, message string,
) func(*v1alpha1.PodChaperon) {
	return func(chaperon *v1alpha1.PodChaperon) {
		chaperon.Status.Conditions = append(chaperon.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func inPhase(phase corev1.PodPhase) func(*v1alpha1.PodChaperon) {
	return func(chaperon *v1alpha1.PodChaperon) { chaperon.Status.Phase = phase }
}

func deleting(chaperon *v1alpha1.PodChaperon) {
	chaperon.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

func newNode(name string, allocatable corev1.ResourceList) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: allocatable}},
	)
	return info
}

// eventually waits for what another goroutine does.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(fmt.Errorf("waiting until %s: %w", what, ctx.Err()))
		}
	}
}
