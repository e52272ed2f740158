package schedulingtest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// Clock is a fake clock that calls functions in goroutines of their own, as clocks do. The fake that it is made of
// holds its lock while it calls them.
type Clock struct{ *testingclock.FakeClock }

// NewClock returns a clock that stands at the beginning of 1970.
func NewClock() Clock { return Clock{testingclock.NewFakeClock(time.Unix(0, 0))} }

// AfterFunc calls f in a goroutine of its own once d has passed.
func (c Clock) AfterFunc(d time.Duration, f func()) clock.Timer {
	return c.FakeClock.AfterFunc(d, func() { go f() })
}

// Engage engages a target that is reachable, and whose API server does what funcs do.
func Engage(t testing.TB, registry *engage.Registry, name string, funcs interceptor.Funcs) *engage.Target {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme).
		WithStatusSubresource(&v1alpha1.PodChaperon{}).
		WithInterceptorFuncs(funcs).
		Build()
	engaged := &engage.Target{
		Key: types.NamespacedName{Name: name}, NodeName: "admiralty-" + name, Hash: name, Client: c, APIReader: c,
	}
	if err := registry.Engage(t.Context(), engaged); err != nil {
		t.Fatal(err)
	}
	return engaged
}

// Summary returns the ClusterSummary of a target with one class of nodes: one node for each list of free resources.
func Summary(free ...corev1.ResourceList) *v1alpha1.ClusterSummary {
	class := v1alpha1.NodeClass{Allocatable: Resources("64", "256Gi")}
	for _, f := range free {
		class.Nodes++
		class.Free = append(class.Free, v1alpha1.FreeNodes{Nodes: 1, Resources: f})
	}
	return &v1alpha1.ClusterSummary{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName},
		Status:     v1alpha1.ClusterSummaryStatus{Nodes: class.Nodes, Classes: []v1alpha1.NodeClass{class}},
	}
}

// List returns quantities by name, given names and quantities in turn.
func List(namesAndQuantities ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(namesAndQuantities); i += 2 {
		l[corev1.ResourceName(namesAndQuantities[i])] = resource.MustParse(namesAndQuantities[i+1])
	}
	return l
}

// Resources of a node, on which many pods fit.
func Resources(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse("500"),
	}
}

// NewPod returns a proxy as admission makes it, in the namespace default.
func NewPod(uid types.UID, requests corev1.ResourceList) *corev1.Pod {
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

// NewChaperon returns the PodChaperon of a proxy, changed as asked for.
func NewChaperon(uid, proxy types.UID, change ...func(*v1alpha1.PodChaperon)) *v1alpha1.PodChaperon {
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: metav1.ObjectMeta{
		Name:      "web-" + string(uid),
		Namespace: "default",
		UID:       uid,
		Labels:    map[string]string{v1alpha1.LabelParentUID: string(proxy)},
	}}
	for _, f := range change {
		f(chaperon)
	}
	return chaperon
}

// With adds a condition to the status of a PodChaperon.
func With(
	kind corev1.PodConditionType,
	status corev1.ConditionStatus,
	reason, message string,
) func(*v1alpha1.PodChaperon) {
	return func(chaperon *v1alpha1.PodChaperon) {
		chaperon.Status.Conditions = append(chaperon.Status.Conditions,
			corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

// InPhase sets the phase of the delegate.
func InPhase(phase corev1.PodPhase) func(*v1alpha1.PodChaperon) {
	return func(chaperon *v1alpha1.PodChaperon) { chaperon.Status.Phase = phase }
}

// Deleting marks a PodChaperon as being deleted.
func Deleting(chaperon *v1alpha1.PodChaperon) {
	chaperon.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

// NewNode returns a virtual node without pods.
func NewNode(name string, allocatable corev1.ResourceList) *framework.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: allocatable}},
	)
	return info
}
