package scheduling

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fakeclients "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
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

// reach has the elders know that a target is engaged.
func (w *world) reach(t *testing.T, name string) {
	t.Helper()
	w.elders.reached(t.Context(), &engage.Target{Key: types.NamespacedName{Name: name}}, func() {})
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
			target: connected, happens: func(w *world) { w.reach(t, "c2") },
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
	w.reach(t, "c2")
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

func TestHowLongAnElderWaitsAtMost(t *testing.T) {
	const noExecute, noSchedule = corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule
	for name, test := range map[string]struct {
		tolerations []corev1.Toleration
		want        time.Duration // 0 for ever
	}{
		"no toleration":        {nil, leastPatience},
		"for a time":           {[]corev1.Toleration{notReady(noExecute, 300)}, 300 * time.Second},
		"for any effect":       {[]corev1.Toleration{notReady("", 300)}, 300 * time.Second},
		"less than it takes":   {[]corev1.Toleration{notReady(noExecute, 10)}, leastPatience},
		"for no time":          {[]corev1.Toleration{notReady(noExecute, 0)}, leastPatience},
		"for a time below one": {[]corev1.Toleration{notReady(noExecute, -5)}, leastPatience},
		"for ever": {
			[]corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}, 0,
		},
		"another taint": {[]corev1.Toleration{{
			Key: corev1.TaintNodeUnreachable, Effect: noExecute, TolerationSeconds: new(int64(300)),
		}}, leastPatience},
		"another effect": {[]corev1.Toleration{notReady(noSchedule, 300)}, leastPatience},
		"the shorter of two": {
			[]corev1.Toleration{notReady(noExecute, 100), notReady("", 300)}, 100 * time.Second,
		},
		"the shorter of two, last": {
			[]corev1.Toleration{notReady(noExecute, 300), notReady("", 100)}, 100 * time.Second,
		},
		"no time, and then some": {
			[]corev1.Toleration{notReady(noExecute, 0), notReady("", 300)}, leastPatience,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", nil)
			pod.Spec.Tolerations = test.tolerations
			got, ends := patienceOf(pod)
			if ends != (test.want > 0) || got != test.want {
				t.Errorf("patience is %v, it ends: %t, want %v", got, ends, test.want)
			}
		})
	}
}

// notReady tolerates an effect of a node that is not Ready for a number of seconds.
func notReady(effect corev1.TaintEffect, seconds int64) corev1.Toleration {
	return corev1.Toleration{
		Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: effect,
		TolerationSeconds: &seconds,
	}
}

func TestThePatienceOfAnElderEndsToTheMoment(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	w.withElder(t, pod, clusterTarget("c2", "v1", metav1.ConditionTrue, created))
	if w.clock.Step(leastPatience - 1); !w.elders.includes(pod) {
		t.Error("it ends too early")
	}
	if w.clock.Step(1); w.elders.includes(pod) {
		t.Error("it does not end")
	}
}

func TestATargetOfAnotherNamespaceHasNoDelegateOfAnElder(t *testing.T) {
	for namespace, waits := range map[string]bool{"default": true, "other": false} {
		target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c2"}}
		w, pod := newWorld(), newPod("p", nil)
		w.withElder(t, pod, target)
		reason, err := w.elders.waits(t.Context(), pod, func() {})
		if err != nil || strings.Contains(reason, namespace+"/c2") != waits || (reason == "") == waits {
			t.Errorf("namespace %s: %q, error %v", namespace, reason, err)
		}
	}
}

func TestAPodThatIsNoProxyIsNoElder(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	delete(pod.Annotations, v1alpha1.AnnotationElect)
	w.withElder(t, pod, clusterTarget("c2", "v1", metav1.ConditionTrue, created))
	if w.elders.includes(pod) {
		t.Error("it is an elder")
	}
}

func TestTheEldersAreListedAgainAfterAnError(t *testing.T) {
	w, pod, fails := newWorld(), newPod("p", nil), true
	w.withElder(t, pod)
	clients := fakeclients.NewClientset(pod)
	clients.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		defer func() { fails = false }()
		return fails, nil, errors.New("busy")
	})
	w.elders = newElders(fake.NewClientBuilder().Build(), w.clock)
	done := make(chan struct{})
	go func() { w.elders.list(t.Context(), clients); close(done) }()
	eventually(t, "it waits", w.clock.HasWaiters)
	w.clock.Step(listElders)
	receive(t, "the list", done)
	if !w.elders.includes(pod) {
		t.Error("the pod is no elder")
	}
}

func TestWithoutAListOfTargetsNobodyIsPlaced(t *testing.T) {
	w, pod := newWorld(), newPod("p", nil)
	w.withElder(t, pod)
	w.elders.targets = fake.NewClientBuilder().WithScheme(runtime.NewScheme()).Build()
	if _, status := w.PreFilter(t.Context(), framework.NewCycleState(), pod, nil); status.Code() != fwk.Error {
		t.Errorf("status is %v", status)
	}
}

func TestWithoutTargetsToReadThereAreNoElders(t *testing.T) {
	w, clients := newWorld(), fakeclients.NewClientset(newPod("p", nil))
	w.elders.list(t.Context(), clients)
	if asked := clients.Actions(); len(asked) > 0 || w.elders.includes(newPod("p", nil)) {
		t.Errorf("it asks %v", asked)
	}
}
