package scheduling

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

func TestFilterAndHints(t *testing.T) {
	for name, test := range map[string]struct {
		happens func(w *world, c1, c2 *target)
		want    string
	}{
		"a target with room":           {func(*world, *target, *target) {}, ""},
		"a target that is not engaged": {func(w *world, c1, _ *target) { w.targets.remove(c1) }, "not connected"},
		"a target out of reach": {
			func(w *world, c1, _ *target) { w.registry.Lose(c1.Target.Target) }, "not reachable",
		},
		"a target of another namespace": {
			func(_ *world, c1, _ *target) { c1.Key.Namespace = "other" }, "takes no pods of namespace default",
		},
		"a target that is left out": {func(w *world, c1, _ *target) {
			w.refuse(newPod("p", nil), c1.NodeName, attempts.FixedTime, "refused: quota")
		}, "refused: quota"},
		"a target without room": {
			func(_ *world, c1, _ *target) { c1.Ledger.Update(summary(resources("1500m", "1Gi"))) },
			"no node has 4 free CPUs (largest: 1.5)",
		},
		"the delegate is in another target": {
			func(w *world, _, c2 *target) { w.placer.Delegates.Seen(c2.Target, newChaperon("c", "p")) },
			"the pod's delegate is in c2",
		},
		"the delegate is in this target, and takes the room": {func(w *world, c1, _ *target) {
			w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p"))
			c1.Ledger.Update(summary(resources("1500m", "1Gi")))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			test.happens(w, c1, c2)
			pod, state := newPod("p", list("cpu", "4")), framework.NewCycleState()
			if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
				t.Fatal(status)
			}
			status := w.Filter(t.Context(), state, pod, newNode(c1.NodeName, nil))
			if got := status.Message(); got != test.want {
				t.Errorf("reason is %q, want %q", got, test.want)
			}
			if !status.IsSuccess() && status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("code is %s", status.Code())
			}
			want := fwk.QueueSkip
			if test.want == "" {
				want = fwk.Queue
			}
			hint, err := w.afterNodeAdd(
				klog.Background(),
				pod,
				nil,
				&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c1.NodeName}},
			)
			if err != nil || hint != want {
				t.Errorf("hint is %v, error %v, want %v", hint, err, want)
			}
		})
	}
}

func TestOnlyProxiesOfEnabledNamespacesAreScheduled(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"a proxy": {func(*corev1.Pod) {}, ""},
		"a proxy in a namespace that is not enabled": {
			func(p *corev1.Pod) { p.Namespace = "other" },
			"namespace other is not enabled: it has no label multicluster-scheduler=enabled",
		},
		"a proxy in a namespace that was not seen yet": {
			func(p *corev1.Pod) { p.Namespace = "new" }, "namespace new is not enabled",
		},
		"a pod that admission never saw": {
			func(p *corev1.Pod) { p.Annotations = nil }, "the pod was not elected when it was created",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("p", nil)
			test.change(pod)
			_, status := newWorld().PreFilter(t.Context(), framework.NewCycleState(), pod, nil)
			if test.want == "" && status.IsSuccess() {
				return
			}
			if status.Code() != fwk.UnschedulableAndUnresolvable || !strings.Contains(status.Message(), test.want) {
				t.Errorf("status is %v, want %q", status, test.want)
			}
		})
	}
}

func TestPodsAreWokenByTargets(t *testing.T) {
	w := newWorld()
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	holdsIts, endsIts, other := newPod("p", nil), newPod("r", nil), newPod("q", nil)
	w.placer.Delegates.Seen(c1.Target, newChaperon("c", "p"))
	w.placer.Delegates.Seen(c1.Target, newChaperon("d", "r", func(c *v1alpha1.PodChaperon) {
		c.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: ""}
	}))
	hints := func() []fwk.QueueingHint {
		var hints []fwk.QueueingHint
		for _, pod := range []*corev1.Pod{holdsIts, endsIts, other} {
			hint, err := w.afterTargetChange(klog.Background(), pod, nil, c1)
			if err != nil {
				t.Fatal(err)
			}
			hints = append(hints, hint)
		}
		return hints
	}
	if diff := cmp.Diff([]fwk.QueueingHint{fwk.Queue, fwk.Queue, fwk.Queue}, hints()); diff != "" {
		t.Errorf("reachable: %s", diff)
	}
	w.registry.Lapse(c1.Target.Target)
	if diff := cmp.Diff([]fwk.QueueingHint{fwk.QueueSkip, fwk.QueueSkip, fwk.QueueSkip}, hints()); diff != "" {
		t.Errorf("out of reach for a moment: %s", diff)
	}
	w.registry.Lose(c1.Target.Target)
	if diff := cmp.Diff([]fwk.QueueingHint{fwk.Queue, fwk.Queue, fwk.QueueSkip}, hints()); diff != "" {
		t.Errorf("lost: %s", diff)
	}
	ended, disengage := context.WithCancel(t.Context())
	disengage()
	c1.Target = placement.NewTarget(ended, c1.Target.Target, "source", w.clock)
	w.placer.Delegates.ForgetTarget(c1.Target, nil)
	if diff := cmp.Diff([]fwk.QueueingHint{fwk.Queue, fwk.Queue, fwk.Queue}, hints()); diff != "" {
		t.Errorf("disengaged: %s", diff)
	}
}

func TestANewLeaderWaitsForTargetsThatWereConnected(t *testing.T) {
	w := newWorld()
	s := &Scheduler{clock: w.clock, plugin: w.plugin, engaged: make(chan struct{}, 1)}
	nodes := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{})
	for name, ready := range map[string]corev1.ConditionStatus{
		"admiralty-c1": corev1.ConditionTrue, "admiralty-c2": corev1.ConditionFalse,
	} {
		if err := nodes.Add(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	await := func() <-chan struct{} {
		done := make(chan struct{})
		go func() {
			s.awaitTargets(t.Context(), corelisters.NewNodeLister(nodes))
			close(done)
		}()
		return done
	}

	late := await()
	eventually(t, "it waits", w.clock.HasWaiters)
	w.clock.Step(targetsTimeout)
	receive(t, "the end of the wait", late)

	inTime := await()
	eventually(t, "it waits", w.clock.HasWaiters)
	w.engage(t, "c1", interceptor.Funcs{})
	s.engaged <- struct{}{}
	receive(t, "the end of the wait", inTime)
	if w.clock.Since(time.Unix(0, 0)) != targetsTimeout {
		t.Error("time has passed")
	}
}

// BenchmarkChoosing measures our plugin's work for one pod, with 100 targets of 50 node classes each. The aim is under
// 100 µs.
func BenchmarkChoosing(b *testing.B) {
	w := newWorld()
	w.strategy = configv1alpha1.Spread
	nodes := make([]fwk.NodeInfo, 100)
	for i := range nodes {
		t := w.engage(b, fmt.Sprintf("c%d", i), interceptor.Funcs{})
		of := summary()
		of.Status.Classes = nil
		for j := range 50 {
			class := summary(resources("8", "64Gi"), resources("4", "16Gi"), resources("2", "8Gi")).Status.Classes[0]
			class.Labels = map[string]string{"pool": fmt.Sprint(j)}
			of.Status.Classes = append(of.Status.Classes, class)
		}
		t.Ledger.Update(of)
		nodes[i] = newNode(t.NodeName, resources("1000", "4Ti"))
	}
	pod := newPod("p", list("cpu", "1", "memory", "1Gi"))
	scores := make(fwk.NodeScoreList, len(nodes))
	b.ReportAllocs()
	for b.Loop() {
		state := framework.NewCycleState()
		w.PreFilter(b.Context(), state, pod, nodes)
		for i, node := range nodes {
			if status := w.Filter(b.Context(), state, pod, node); !status.IsSuccess() {
				b.Fatal(status)
			}
			scores[i].Score, _ = w.Score(b.Context(), state, pod, node)
		}
		w.NormalizeScore(b.Context(), state, pod, scores)
	}
}
