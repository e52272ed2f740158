package scheduling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
)

// withPolicy gives a target a policy.
func (w *world) withPolicy(t *target, policy *v1alpha1.PlacementPolicy) {
	w.registry.SetPolicy(t.Target.Target, policy)
}

// cycleOf runs what the scheduler runs when a pod finds no target, and returns where it is tried next.
func (w *world) cycleOf(t *testing.T, pod *corev1.Pod, nodes ...fwk.NodeInfo) attempts.Trial {
	t.Helper()
	state := framework.NewCycleState()
	result, status := w.PreFilter(t.Context(), state, pod, nodes)
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	for _, node := range nodes {
		if result.AllNodes() || result.NodeNames.Has(node.Node().Name) {
			if w.Filter(t.Context(), state, pod, node).IsSuccess() {
				t.Fatalf("the pod fits %s", node.Node().Name)
			}
		}
	}
	if _, status := w.PostFilter(t.Context(), state, pod, nil); status.Code() != fwk.Unschedulable {
		t.Fatal(status)
	}
	return w.attempts.TakeNext(pod.UID).Trial
}

func in(nodeName string, prospect attempts.Prospect) attempts.Trial {
	return attempts.Trial{NodeName: nodeName, Prospect: prospect}
}

// isLeftOut says whether any target is left out for the pod.
func (w *world) isLeftOut(t testing.TB, pod *corev1.Pod) bool {
	t.Helper()
	memory, err := w.attempts.Of(pod)
	if err != nil {
		t.Fatal(err)
	}
	return len(memory.LeftOut) > 0
}

func important(pod *corev1.Pod) *corev1.Pod {
	priority := int32(1000)
	pod.Spec.Priority = &priority
	return pod
}

func TestWhereAPodIsTriedThatFitsNowhere(t *testing.T) {
	gpus := &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{NodeClasses: []v1alpha1.ScaleUpNodeClass{{
		Allocatable: list("cpu", "100", "nvidia.com/gpu", "8"),
	}}}}
	growing := &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}}
	named := func(pod *corev1.Pod) *corev1.Pod {
		pod.Annotations[v1alpha1.AnnotationOriginalConstraints] = `{"nodeSelector":{"kubernetes.io/hostname":"n1"}}`
		return pod
	}
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		happens func(w *world, c1, c2 *target)
		// lesser is the target that has a less important pod.
		lesser string
		want   attempts.Trial
	}{
		"no target can make room": {pod: newPod("p", list("cpu", "16")), want: attempts.Trial{}},
		"a target can add nodes like those it has": {
			pod: newPod("p", list("cpu", "16")), happens: func(w *world, _, c2 *target) { w.withPolicy(c2, growing) },
			want: in("admiralty-c2", attempts.Grow),
		},
		"a target could only add nodes that are too small": {
			pod: newPod("p", list("cpu", "65")), happens: func(w *world, _, c2 *target) { w.withPolicy(c2, growing) },
		},
		"a target could add nodes that DaemonSets leave too small": {
			pod: newPod("p", list("cpu", "63")),
			happens: func(w *world, _, c2 *target) {
				w.withPolicy(c2, growing)
				daemons(c2)
			},
		},
		"a target can evict what DaemonSets have there": {
			pod: important(newPod("p", list("cpu", "63"))), happens: func(_ *world, _, c2 *target) { daemons(c2) },
			lesser: "c2", want: in("admiralty-c2", attempts.Preempt),
		},
		"a target can add bigger nodes": {
			pod: newPod("p", list("cpu", "65")), happens: func(w *world, c1, _ *target) { w.withPolicy(c1, gpus) },
			want: in("admiralty-c1", attempts.Grow),
		},
		"a target can add nodes from zero": {
			pod: newPod("p", list("nvidia.com/gpu", "1")),
			happens: func(w *world, c1, _ *target) {
				c1.Ledger.Update(&v1alpha1.ClusterSummary{})
				w.withPolicy(c1, gpus)
			},
			want: in("admiralty-c1", attempts.Grow),
		},
		"a growing target refused pods": {pod: newPod("p", list("cpu", "16")), happens: func(w *world, c1, c2 *target) {
			w.withPolicy(c1, growing)
			w.withPolicy(c2, growing)
			w.refuse(newPod("p", nil), c1.NodeName, attempts.TimeOrMoreRoom, "x")
		}, want: in("admiralty-c2", attempts.Grow)},
		"a target has less important pods": {
			pod: important(newPod("p", list("cpu", "16"))), lesser: "c2", want: in("admiralty-c2", attempts.Preempt),
		},
		"preempting is tried before growing": {
			pod:     important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, c1, _ *target) { w.withPolicy(c1, growing) }, lesser: "c2",
			want: in("admiralty-c2", attempts.Preempt),
		},
		"an equally important pod does not preempt": {pod: newPod("p", list("cpu", "16")), lesser: "c2"},
		"a pod that may not preempt": {
			pod: never(important(newPod("p", list("cpu", "16")))), lesser: "c2",
		},
		"the pod is too big to preempt for": {
			pod: important(newPod("p", list("cpu", "65"))), lesser: "c2",
		},
		"another target has preempted for the pod": {
			pod:     important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, c1, _ *target) { w.disturb(newPod("p", nil), c1.NodeName) }, lesser: "c2",
		},
		"the same target has preempted for the pod": {
			pod:     important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, _, c2 *target) { w.disturb(newPod("p", nil), c2.NodeName) }, lesser: "c2",
			want: in("admiralty-c2", attempts.Preempt),
		},
		"a target does not list the labels that the pod asks for": {
			pod:     named(newPod("p", list("cpu", "1"))),
			happens: func(w *world, _, c2 *target) { omit(c2); w.withPolicy(c2, growing) },
			want:    in("admiralty-c2", attempts.Unsure),
		},
		"a target that can grow is asked to, although another one has preempted": {
			pod: important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, c1, c2 *target) {
				w.disturb(newPod("p", nil), c1.NodeName)
				w.withPolicy(c2, growing)
			},
			lesser: "c2", want: in("admiralty-c2", attempts.Grow),
		},
		"a target found no node, and can add one": {
			pod: newPod("p", list("cpu", "1")),
			happens: func(w *world, c1, c2 *target) {
				w.withPolicy(c2, growing)
				w.refuse(newPod("p", nil), c1.NodeName, attempts.UntilMoreRoom, "anti-affinity")
				w.refuse(newPod("p", nil), c2.NodeName, attempts.UntilMoreRoom, "anti-affinity")
			},
			want: in("admiralty-c2", attempts.Grow),
		},
		"a target added no node in time": {
			pod: newPod("p", list("cpu", "1")),
			happens: func(w *world, c1, c2 *target) {
				w.withPolicy(c2, growing)
				w.refuse(newPod("p", nil), c1.NodeName, attempts.UntilMoreRoom, "anti-affinity")
				w.refuse(newPod("p", nil), c2.NodeName, attempts.TimeOrMoreRoom, "no node was added")
			},
		},
		"a target that preempts found nobody to evict, and can add a node": {
			pod: important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, _, c2 *target) {
				w.withPolicy(c2, growing)
				w.refuse(newPod("p", nil), c2.NodeName, attempts.UntilMoreRoom, "no victims")
			},
			lesser: "c2", want: in("admiralty-c2", attempts.Grow),
		},
		"pods like it wait in a queue of a target with room": {
			pod: newPod("p", list("cpu", "1")),
			happens: func(w *world, c1, c2 *target) {
				w.refuse(newPod("p", nil), c1.NodeName, attempts.UntilMoreRoom, "anti-affinity")
				c2.Ledger.Place("q", w.demandOf(t, newPod("p", list("cpu", "1"))))
				c2.Ledger.Queue("q", "default")
			},
			want: in("admiralty-c2", attempts.Queue),
		},
		"the target that preempted for the pod is gone": {
			pod:     important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, _, _ *target) { w.disturb(newPod("p", nil), "admiralty-c3") }, lesser: "c2",
			want: in("admiralty-c2", attempts.Preempt),
		},
		"the target that preempted for the pod is cordoned": {
			pod: important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, c1, _ *target) {
				w.disturb(newPod("p", nil), c1.NodeName)
				cordoned := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
				cordoned.Name = c1.NodeName
				w.nodes = nodes(cordoned)
			},
			lesser: "c2", want: in("admiralty-c2", attempts.Preempt),
		},
		"the target that preempted for the pod has only small nodes by now": {
			pod: important(newPod("p", list("cpu", "16"))),
			happens: func(w *world, c1, _ *target) {
				w.disturb(newPod("p", nil), c1.NodeName)
				of := summary(resources("8", "64Gi"))
				of.Status.Classes[0].Allocatable = resources("8", "64Gi")
				c1.Ledger.Update(of)
			},
			lesser: "c2", want: in("admiralty-c2", attempts.Preempt),
		},
		"the pod was tried where it does not fit any more": {
			pod:     newPod("p", list("cpu", "16")),
			happens: func(w *world, c1, _ *target) { w.try(t, newPod("p", nil), in(c1.NodeName, attempts.Grow)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			if test.happens != nil {
				test.happens(w, c1, c2)
			}
			nodes := []fwk.NodeInfo{
				newNode(c1.NodeName, resources("64", "64Gi")),
				newNode(c2.NodeName, resources("64", "64Gi")),
			}
			for i, name := range []string{"c1", "c2"} {
				if name == test.lesser {
					nodes[i].(*framework.NodeInfo).AddPod(newPod("lesser", list("cpu", "8")))
				}
			}
			if diff := cmp.Diff(test.want, w.cycleOf(t, test.pod, nodes...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// omit the names of a target's nodes, as targets do.
func omit(t *target) {
	of := summary(resources("8", "64Gi"))
	of.Status.OmittedLabels = []string{corev1.LabelHostname}
	t.Ledger.Update(of)
}

// daemons have DaemonSets take 2 of the 64 CPUs of a target's nodes.
func daemons(t *target) {
	of := summary(resources("8", "64Gi"))
	of.Status.Classes[0].Empty = []corev1.ResourceList{resources("62", "64Gi")}
	t.Ledger.Update(of)
}

func never(pod *corev1.Pod) *corev1.Pod {
	policy := corev1.PreemptNever
	pod.Spec.PreemptionPolicy = &policy
	return pod
}

// TestAPodThatMayPreemptIsWokenWhenATargetChanges has a full target, of whose pods nothing is known.
func TestAPodThatMayPreemptIsWokenWhenATargetChanges(t *testing.T) {
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want fwk.QueueingHint
	}{
		"an important pod":                {important(newPod("p", list("cpu", "16"))), fwk.Queue},
		"a pod without priority":          {newPod("p", list("cpu", "16")), fwk.QueueSkip},
		"a pod that may not preempt":      {never(important(newPod("p", list("cpu", "16")))), fwk.QueueSkip},
		"a pod that is too big for nodes": {important(newPod("p", list("cpu", "65"))), fwk.QueueSkip},
	} {
		w := newWorld()
		c1 := w.engage(t, "c1", interceptor.Funcs{})
		if got, err := w.afterTargetChange(klog.Background(), test.pod, nil, c1); got != test.want || err != nil {
			t.Errorf("%s: hint is %v, error %v", name, got, err)
		}
	}
}

func TestAPodIsTriedInOneTargetOnly(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	for _, of := range []*engage.Target{c1.Target.Target, c2.Target.Target} {
		w.registry.SetPolicy(of, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
	}
	pod := newPod("p", list("cpu", "16"))
	fuller := newNode(c1.NodeName, resources("64", "64Gi"))
	fuller.AddPod(newPod("q", list("cpu", "8")))
	nodes := []fwk.NodeInfo{fuller, newNode(c2.NodeName, resources("64", "64Gi"))}
	if next := w.cycleOf(t, pod, nodes...); next.NodeName != c2.NodeName {
		t.Fatalf("it is tried in %v, want the emptier c2", next)
	}
	state := framework.NewCycleState()
	result, status := w.PreFilter(t.Context(), state, pod, nodes)
	if !status.IsSuccess() || !cmp.Equal(result.NodeNames.UnsortedList(), []string{c2.NodeName}) {
		t.Fatalf("in the next cycle: %v, %v, want c2 alone", result, status)
	}
	if status := w.Filter(t.Context(), state, pod, nodes[1]); !status.IsSuccess() {
		t.Errorf("c2: %v", status)
	}
	w.attempts.Forget("p")
	if next := w.attempts.TakeNext("p"); next.Trial.Exists() {
		t.Errorf("after it is forgotten, it is still tried in %v", next.Trial)
	}
}

func TestEachTargetThatCanGrowHasItsTurn(t *testing.T) {
	w := newWorld()
	pod := newPod("p", list("cpu", "16"))
	var nodes []fwk.NodeInfo
	for i, name := range []string{"c1", "c2", "c3"} {
		c := w.engage(t, name, interceptor.Funcs{})
		w.withPolicy(c, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
		node := newNode(c.NodeName, resources("64", "64Gi"))
		for range i { // the earlier ones are emptier
			node.AddPod(newPod("q", list("cpu", "8")))
		}
		nodes = append(nodes, node)
	}
	var tried []string
	for range 6 {
		next := w.cycleOf(t, pod, nodes...)
		tried = append(tried, next.NodeName)
		w.refuse(pod, next.NodeName, attempts.TimeOrMoreRoom, "no node was added")
		w.clock.Step(5 * time.Minute) // Each is asked for longer than the others are left out.
		eventually(t, "the exclusion ends", func() bool { return !w.isLeftOut(t, pod) })
	}
	want := []string{"admiralty-c1", "admiralty-c2", "admiralty-c3", "admiralty-c1", "admiralty-c2", "admiralty-c3"}
	if diff := cmp.Diff(want, tried); diff != "" {
		t.Error(diff)
	}
}

func TestATrialThatDoesNotComeAboutIsOver(t *testing.T) {
	for name, test := range map[string]func(w *world, c1 *target, pod *corev1.Pod){
		"the target cannot be reached": func(w *world, c1 *target, _ *corev1.Pod) { w.registry.Lose(c1.Target.Target) },
		"the target's policy has changed": func(w *world, c1 *target, _ *corev1.Pod) {
			w.withPolicy(c1, &v1alpha1.PlacementPolicy{})
		},
		"the namespace is not enabled": func(_ *world, _ *target, pod *corev1.Pod) { pod.Namespace = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1 := w.engage(t, "c1", interceptor.Funcs{})
			w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
			pod := newPod("p", list("cpu", "16"))
			node := newNode(c1.NodeName, resources("64", "64Gi"))
			if next := w.cycleOf(t, pod, node); next.Prospect != attempts.Grow {
				t.Fatalf("it is tried in %v", next)
			}
			test(w, c1, pod)
			state := framework.NewCycleState()
			if _, status := w.PreFilter(t.Context(), state, pod, nil); status.IsSuccess() {
				w.Filter(t.Context(), state, pod, node)
			}
			w.PostFilter(t.Context(), state, pod, nil)
			if next := w.attempts.TakeNext(pod.UID); next.Trial.Exists() || !next.Again {
				t.Errorf("next is %v, and all targets are looked at: %t", next.Trial, next.Again)
			}
			w.PostFilter(t.Context(), framework.NewCycleState(), pod, nil)
			if next := w.attempts.TakeNext(pod.UID); next.Trial.Exists() || next.Again {
				t.Errorf("and then for ever: %v, %t", next.Trial, next.Again)
			}
		})
	}
}

func TestTheTargetThatRefusedThePodLeastOftenHasItsTurn(t *testing.T) {
	w := newWorld()
	for _, nodeName := range []string{"n1", "n1", "n2"} {
		w.refuse(newPod("p", nil), nodeName, attempts.TimeOrMoreRoom, "slow")
	}
	for _, nodeName := range []string{"n1", "n2"} {
		w.attempts.Lift(nodeName)
	}
	for pod, want := range map[types.UID][]int64{"p": {0, 100}, "q": nil} {
		state := framework.NewCycleState()
		if _, status := w.PreFilter(t.Context(), state, newPod(pod, nil), nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		var got []int64
		if !(turns{}).PreScore(t.Context(), state, nil, nil).IsSkip() {
			scores := fwk.NodeScoreList{{Name: "n1"}, {Name: "n2"}}
			for i := range scores {
				scores[i].Score, _ = turns{}.Score(t.Context(), state, nil, newNode(scores[i].Name, nil))
			}
			turns{}.NormalizeScore(t.Context(), state, nil, scores)
			got = []int64{scores[0].Score, scores[1].Score}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod %s: %s", pod, diff)
		}
	}
}

func TestWhichCandidateIsTriedFirst(t *testing.T) {
	first := candidate{Trial: in("b", attempts.Preempt), turns: 1, share: 5}
	for name, other := range map[string]candidate{
		"a better prospect": {Trial: in("a", attempts.Grow), turns: 0, share: 1},
		"fewer turns":       {Trial: in("a", attempts.Preempt), turns: 2, share: 1},
		"more room":         {Trial: in("a", attempts.Preempt), turns: 1, share: 6},
		"an earlier name":   {Trial: in("c", attempts.Preempt), turns: 1, share: 5},
	} {
		if !first.before(other, configv1alpha1.Spread) || other.before(first, configv1alpha1.Spread) {
			t.Errorf("%s does not decide", name)
		}
	}
	fuller := candidate{Trial: in("c", attempts.Preempt), turns: 1, share: 6}
	if !fuller.before(first, configv1alpha1.Pack) || first.before(fuller, configv1alpha1.Pack) {
		t.Error("pack does not try the fuller one first")
	}
}

func TestAPodWhoseTargetFoundNoNodeIsTriedThereOnce(t *testing.T) {
	w, pod := newWorld(), newPod("p", list("cpu", "1"))
	c1 := w.engage(t, "c1", interceptor.Funcs{})
	w.withPolicy(c1, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
	w.refuse(pod, c1.NodeName, attempts.UntilMoreRoom, "anti-affinity")
	node := newNode(c1.NodeName, resources("64", "64Gi"))
	if next := w.cycleOf(t, pod, node); next != in(c1.NodeName, attempts.Grow) {
		t.Fatalf("it is tried in %v", next)
	}
	state := framework.NewCycleState()
	if _, status := w.PreFilter(t.Context(), state, pod, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if status := w.Filter(t.Context(), state, pod, node); !status.IsSuccess() {
		t.Errorf("the trial: %v", status)
	}
	c, err := readCycle(state)
	if err != nil || c.accepted != attempts.Grow {
		t.Errorf("it is accepted as %v, error %v", c.accepted, err)
	}
}
