package scheduling

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// withPolicy gives a target a policy.
func (w *world) withPolicy(t *target, policy *v1alpha1.PlacementPolicy) {
	w.registry.SetPolicy(t.Target, policy)
}

// cycleOf runs what the scheduler runs when a pod finds no target, and returns where it is tried next.
func (w *world) cycleOf(t *testing.T, pod *corev1.Pod, nodes ...fwk.NodeInfo) trial {
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
	next, _ := w.trials.of(pod.UID)
	return next
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
		want   trial
	}{
		"none can do anything about it":       {pod: newPod("p", list("cpu", "16")), want: trial{}},
		"one can add nodes like those it has": {pod: newPod("p", list("cpu", "16")), happens: func(w *world, _, c2 *target) { w.withPolicy(c2, growing) }, want: trial{"admiralty-c2", grow}},
		"its nodes would not be big enough":   {pod: newPod("p", list("cpu", "65")), happens: func(w *world, _, c2 *target) { w.withPolicy(c2, growing) }},
		"one can add bigger nodes":            {pod: newPod("p", list("cpu", "65")), happens: func(w *world, c1, _ *target) { w.withPolicy(c1, gpus) }, want: trial{"admiralty-c1", grow}},
		"one can add nodes from zero":         {pod: newPod("p", list("nvidia.com/gpu", "1")), happens: func(w *world, c1, _ *target) { c1.ledger.tell(&v1alpha1.ClusterSummary{}); w.withPolicy(c1, gpus) }, want: trial{"admiralty-c1", grow}},
		"one that can grow refused it": {pod: newPod("p", list("cpu", "16")), happens: func(w *world, c1, c2 *target) {
			w.withPolicy(c1, growing)
			w.withPolicy(c2, growing)
			w.exclusions.add(newPod("p", nil), c1.NodeName, late, "x")
		}, want: trial{"admiralty-c2", grow}},
		"one has less important pods":                     {pod: important(newPod("p", list("cpu", "16"))), lesser: "c2", want: trial{"admiralty-c2", preempt}},
		"preempting is tried before growing":              {pod: important(newPod("p", list("cpu", "16"))), happens: func(w *world, c1, _ *target) { w.withPolicy(c1, growing) }, lesser: "c2", want: trial{"admiralty-c2", preempt}},
		"an equally important pod does not preempt":       {pod: newPod("p", list("cpu", "16")), lesser: "c2"},
		"a pod that may not preempt":                      {pod: never(important(newPod("p", list("cpu", "16")))), lesser: "c2"},
		"it is too big to preempt for":                    {pod: important(newPod("p", list("cpu", "65"))), lesser: "c2"},
		"another target has preempted for it":             {pod: important(newPod("p", list("cpu", "16"))), happens: func(w *world, c1, _ *target) { w.trials.disturb("p", c1.NodeName) }, lesser: "c2"},
		"the same target has preempted for it":            {pod: important(newPod("p", list("cpu", "16"))), happens: func(w *world, _, c2 *target) { w.trials.disturb("p", c2.NodeName) }, lesser: "c2", want: trial{"admiralty-c2", preempt}},
		"one does not tell the labels that it asks for":   {pod: named(newPod("p", list("cpu", "1"))), happens: func(w *world, _, c2 *target) { omit(c2); w.withPolicy(c2, growing) }, want: trial{"admiralty-c2", unsure}},
		"it was tried where it does not fit any more now": {pod: newPod("p", list("cpu", "16")), happens: func(w *world, c1, _ *target) { w.trials.start("p", trial{c1.NodeName, grow}, nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
			if test.happens != nil {
				test.happens(w, c1, c2)
			}
			nodes := []fwk.NodeInfo{newNode(c1.NodeName, resources("64", "64Gi")), newNode(c2.NodeName, resources("64", "64Gi"))}
			for i, name := range []string{"c1", "c2"} {
				if name == test.lesser {
					nodes[i].(*framework.NodeInfo).AddPod(newPod("lesser", list("cpu", "8")))
				}
			}
			if diff := cmp.Diff(test.want, w.cycleOf(t, test.pod, nodes...), cmp.AllowUnexported(trial{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// omit the names of a target's nodes, as targets do.
func omit(t *target) {
	of := summary(resources("8", "64Gi"))
	of.Status.OmittedLabels = []string{corev1.LabelHostname}
	t.ledger.tell(of)
}

func never(pod *corev1.Pod) *corev1.Pod {
	policy := corev1.PreemptNever
	pod.Spec.PreemptionPolicy = &policy
	return pod
}

func TestAPodIsTriedInOneTargetOnly(t *testing.T) {
	w := newWorld()
	c1, c2 := w.engage(t, "c1", interceptor.Funcs{}), w.engage(t, "c2", interceptor.Funcs{})
	for _, of := range []*engage.Target{c1.Target, c2.Target} {
		w.registry.SetPolicy(of, &v1alpha1.PlacementPolicy{ScaleUp: &v1alpha1.ScaleUp{}})
	}
	pod := newPod("p", list("cpu", "16"))
	fuller := newNode(c1.NodeName, resources("64", "64Gi"))
	fuller.AddPod(newPod("q", list("cpu", "8")))
	nodes := []fwk.NodeInfo{fuller, newNode(c2.NodeName, resources("64", "64Gi"))}
	if next := w.cycleOf(t, pod, nodes...); next.nodeName != c2.NodeName {
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
	w.trials.forget("p")
	if len(w.trials.current) > 0 {
		t.Error("something is left of it")
	}
}
