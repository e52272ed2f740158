package scheduling

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// created is when the elder was created.
var created = time.Unix(10_000, 0)

// clusterTarget returns a ClusterTarget whose condition Connected has a status since a time.
func clusterTarget(
	name, version string, status metav1.ConditionStatus, since time.Time,
) *v1alpha1.ClusterTarget {
	object := &v1alpha1.ClusterTarget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	object.Status.KubernetesVersion = version
	object.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionConnected, Status: status, LastTransitionTime: metav1.NewTime(since),
	}}
	return object
}

// withElder makes the pod "p" an elder of a new leader, which reads these targets.
func (w *world) withElder(t *testing.T, pod *corev1.Pod, targets ...client.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	w.elders = newElders(fake.NewClientBuilder().WithScheme(scheme).WithObjects(targets...).Build(), w.clock)
	there := pod.DeepCopy()
	there.CreationTimestamp = metav1.NewTime(created)
	w.elders.list(t.Context(), fakeclients.NewClientset(there))
}

func TestANewLeaderWaitsForTargetsThatMayHaveAnUnboundPod(t *testing.T) {
	never := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	long := func(p *corev1.Pod) {
		p.Spec.Tolerations = []corev1.Toleration{{
			Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: new(int64(300)),
		}}
	}
	connected := clusterTarget("c2", "v1", metav1.ConditionTrue, created.Add(-time.Hour))
	for name, test := range map[string]struct {
		target  *v1alpha1.ClusterTarget
		change  func(*corev1.Pod)
		happens func(w *world)
		want    string
	}{
		"it was connected": {target: connected, want: "waits for c2, where an earlier manager may have placed the pod"},
		"it is reached": {
			target: connected, happens: func(w *world) { w.elders.reached(types.NamespacedName{Name: "c2"}) },
		},
		"it was lost long before the pod was created": {
			target: clusterTarget("c2", "v1", metav1.ConditionFalse, created.Add(-2*doubt)),
		},
		"it was lost about when the pod was created": {
			target: clusterTarget("c2", "v1", metav1.ConditionFalse, created.Add(-doubt/2)), want: "waits for c2",
		},
		"it was lost after the pod was created": {
			target: clusterTarget("c2", "v1", metav1.ConditionFalse, created.Add(time.Hour)), want: "waits for c2",
		},
		"it was never connected": {target: clusterTarget("c2", "", metav1.ConditionFalse, created.Add(time.Hour))},
		"it was made again": {
			target: clusterTarget("c2", "", metav1.ConditionUnknown, created), want: "waits for c2",
		},
		"it does not exist any more": {target: clusterTarget("c3", "", metav1.ConditionFalse, created)},
		"another pod":                {target: connected, change: func(p *corev1.Pod) { p.Name = "another" }},
		"the next pod of its name": {
			target: connected, change: func(p *corev1.Pod) { p.UID = "q" }, want: "waits for c2",
		},
		"its patience has ended": {
			target: connected, change: long, happens: func(w *world) { w.clock.Step(301 * time.Second) },
		},
		"its patience has not ended": {
			target: connected, change: long, happens: func(w *world) { w.clock.Step(299 * time.Second) },
			want: "the pod, until 00:05:00 UTC at most",
		},
		"it waits for ever": {
			target: connected, change: never, happens: func(w *world) { w.clock.Step(time.Hour) }, want: "waits for c2",
		},
		"it has no patience, and the target may not be lost yet": {
			target: connected, happens: func(w *world) { w.clock.Step(leastPatience - 1) }, want: "waits for c2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, pod := newWorld(), newPod("p", nil)
			w.engage(t, "c1", interceptor.Funcs{})
			w.withElder(t, pod, test.target)
			if test.change != nil {
				test.change(pod)
			}
			if test.happens != nil {
				test.happens(w)
			}
			_, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
			if status.IsSuccess() != (test.want == "") || !strings.Contains(status.Message(), test.want) {
				t.Errorf("status is %v, want %q", status, test.want)
			}
		})
	}
}

func TestAnElderWhoseDelegateIsKnownDoesNotWait(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	w.withElder(t, pod, clusterTarget("c2", "v1", metav1.ConditionTrue, created))
	w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p"))
	result, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
	if !status.IsSuccess() || result == nil || !result.NodeNames.Has(c1.NodeName) {
		t.Errorf("%v, %v", result, status)
	}
}

func TestAnElderIsWokenByEveryTarget(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	full := w.engage(t, "c1", interceptor.Funcs{})
	full.Ledger.Update(nil)
	w.withElder(t, pod, clusterTarget("c2", "v1", metav1.ConditionTrue, created))
	other := newPod("q", nil)
	other.Name = "another"
	for _, test := range []struct {
		pod  *corev1.Pod
		want fwk.QueueingHint
	}{{pod, fwk.Queue}, {other, fwk.QueueSkip}} {
		byTarget, _ := w.afterTargetChange(klog.Background(), test.pod, nil, full)
		byNode, _ := w.afterNodeChange(klog.Background(), test.pod, nil, nil)
		if byTarget != test.want || byNode != test.want {
			t.Errorf("%s: hints are %v, %v, want %v", test.pod.Name, byTarget, byNode, test.want)
		}
	}
	w.elders.reached(types.NamespacedName{Name: "c2"})
	if _, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if w.elders.includes(pod) {
		t.Error("it is still an elder")
	}
}

func TestAnElderIsTriedAgainWhenItsPatienceEnds(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	w.withElder(t, pod, clusterTarget("c2", "v1", metav1.ConditionTrue, created))
	woken := make(chan struct{})
	for range 2 { // One timer only: a second call would close the channel twice.
		if reason, err := w.elders.waits(t.Context(), pod, func() { close(woken) }); reason == "" || err != nil {
			t.Fatal(reason, err)
		}
	}
	w.clock.Step(leastPatience)
	receive(t, "the end of its patience", woken)
}

func TestAPodOfAnEarlierOnesNameWaitsForItsEnd(t *testing.T) {
	w, pod := newWorld(), newPod("new", nil)
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	chaperon := newChaperon("c", "old", func(c *v1alpha1.PodChaperon) {
		c.Annotations = map[string]string{
			v1alpha1.AnnotationParentNamespace: pod.Namespace, v1alpha1.AnnotationParentName: pod.Name,
		}
	})
	w.placer.Delegates.Seen(c1.Target, chaperon)
	_, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
	if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), "still ending in c1") {
		t.Fatalf("status is %v", status)
	}
	w.registry.Lose(c1.Target.Target)
	if hint, err := w.afterTargetChange(klog.Background(), pod, nil, c1); hint != fwk.Queue || err != nil {
		t.Errorf("hint is %v: %v", hint, err)
	}
	if _, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil); !status.IsSuccess() {
		t.Errorf("it waits for a target that is lost: %v", status)
	}
}
