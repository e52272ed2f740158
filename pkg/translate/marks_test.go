package translate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestIsProxy(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"an unbound proxy":                         {func(*corev1.Pod) {}, true},
		"an unbound pod that lost its annotations": {func(p *corev1.Pod) { p.Annotations = nil }, false},
		"a proxy on a virtual node":                {func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c2" }, true},
		"one that lost its annotations there": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Annotations = "admiralty-c2", nil
		}, true},
		"one on another node": {func(p *corev1.Pod) { p.Spec.NodeName = "worker-1" }, false},
		"another scheduler's pod on a virtual node": {func(p *corev1.Pod) {
			p.Spec.NodeName, p.Spec.SchedulerName = "admiralty-c2", "default-scheduler"
		}, false},
		"another scheduler's pod": {func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := mustProxy(t, elected(nil, nil))
			test.change(pod)
			if got := translate.IsProxy(pod); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestIsNodeLabel(t *testing.T) {
	for key, want := range map[string]bool{
		"team": true, "example.org/team": true, corev1.LabelTopologyZone: true,
		corev1.LabelHostname: false, "node-role.kubernetes.io/control-plane": false,
		"multicluster.admiralty.io/any":    false,
		"node-restriction.kubernetes.io/a": false, "team.node-restriction.kubernetes.io/a": false,
	} {
		if got := translate.IsNodeLabel(key); got != want {
			t.Errorf("%s: %v", key, got)
		}
	}
}

func TestLabelValue(t *testing.T) {
	long, other := strings.Repeat("a", 63), strings.Repeat("a", 64)
	if got := translate.LabelValue(long); got != long {
		t.Errorf("a value that is just short enough becomes %q", got)
	}
	got := translate.LabelValue(other)
	if len(got) > 63 || len(got) < 60 || !strings.HasPrefix(got, "aaaa") || got == translate.LabelValue(other+"a") {
		t.Errorf("a value that is too long becomes %q", got)
	}
}

func TestTheGenerationThatAKubeletHasSeenIsTheProxys(t *testing.T) {
	gate := corev1.PodConditionType("example.org/gate")
	proxy := mustProxy(t, elected(nil, nil))
	proxy.Generation, proxy.Spec.ReadinessGates = 7, []corev1.PodReadinessGate{{ConditionType: gate}}
	condition := func(t corev1.PodConditionType, generation int64) corev1.PodCondition {
		return corev1.PodCondition{Type: t, ObservedGeneration: generation}
	}
	delegate := corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{
		condition(corev1.PodReady, 2), condition(corev1.PodInitialized, 0), condition(corev1.PodScheduled, 2),
		condition(gate, 2),
	}}
	shown := func() *corev1.PodStatus {
		return &corev1.PodStatus{Conditions: []corev1.PodCondition{
			condition(corev1.PodReady, 0), condition(corev1.PodInitialized, 0), condition(corev1.PodScheduled, 0),
			condition(gate, 0), condition(corev1.ContainersReady, 0),
		}}
	}
	status := shown()
	translate.ShowGeneration(proxy, delegate, status)
	want := map[corev1.PodConditionType]int64{corev1.PodReady: 7}
	for _, c := range status.Conditions {
		if c.ObservedGeneration != want[c.Type] {
			t.Errorf("%s: generation %d, want %d", c.Type, c.ObservedGeneration, want[c.Type])
		}
	}
	if status.ObservedGeneration != 7 {
		t.Errorf("generation %d", status.ObservedGeneration)
	}
	status = shown()
	translate.ShowGeneration(proxy, corev1.PodStatus{}, status)
	if status.ObservedGeneration != 0 {
		t.Errorf("a kubelet that says nothing has seen generation %d", status.ObservedGeneration)
	}
}

// TestTheTimesAndTolerationsOfADelegateChange looks at each field alone.
func TestTheTimesAndTolerationsOfADelegateChange(t *testing.T) {
	deadline := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](60) }
	grace := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1) }
	tolerates := func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, gpuToleration) }
	label := func(p *corev1.Pod) { p.Labels["new"] = "1" }
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		live   func(*corev1.Pod) // what others in the target did
		want   func(*corev1.Pod) bool
	}{
		"a deadline": {
			deadline, nil, func(p *corev1.Pod) bool { return *p.Spec.ActiveDeadlineSeconds == 60 },
		},
		"a deadline that the target has already": {deadline, deadline, nil},
		"a deadline in place of another one": {
			deadline, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](99) },
			func(p *corev1.Pod) bool { return *p.Spec.ActiveDeadlineSeconds == 60 },
		},
		"a grace period": {grace, nil, func(p *corev1.Pod) bool { return *p.Spec.TerminationGracePeriodSeconds == 1 }},
		"a grace period that the target has already": {grace, grace, nil},
		"a toleration": {tolerates, nil, func(p *corev1.Pod) bool {
			return p.Spec.Tolerations[len(p.Spec.Tolerations)-1] == gpuToleration
		}},
		"a toleration that the target has already": {tolerates, tolerates, nil},
		"a label alone": {label, func(p *corev1.Pod) {
			p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](99), ptr.To[int64](99)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := change(t, test.change)
			delegate := translate.Delegate(before)
			if test.live != nil {
				test.live(delegate)
			}
			changes := translate.DelegateChanges(delegate, after)
			if test.want == nil {
				if changes.Spec != nil {
					t.Errorf("the spec changes: %+v", changes.Spec.Spec)
				}
				return
			}
			if changes.Spec == nil || !test.want(changes.Spec) {
				t.Errorf("the spec is %+v", changes.Spec)
			}
		})
	}
}

// TestDefaultTolerationsOfTheSourceAreNotAdded has tolerations that differ in one field each from that of a default.
func TestDefaultTolerationsOfTheSourceAreNotAdded(t *testing.T) {
	byDefault := func(changes ...func(*corev1.Toleration)) corev1.Toleration {
		toleration := corev1.Toleration{
			Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: ptr.To[int64](300),
		}
		for _, change := range changes {
			change(&toleration)
		}
		return toleration
	}
	for name, test := range map[string]struct {
		toleration corev1.Toleration
		added      bool
	}{
		"of not-ready":     {toleration: byDefault()},
		"of unreachable":   {toleration: byDefault(func(t *corev1.Toleration) { t.Key = corev1.TaintNodeUnreachable })},
		"of another taint": {byDefault(func(t *corev1.Toleration) { t.Key = "example.org/maintenance" }), true},
		"for another time": {byDefault(func(t *corev1.Toleration) { t.TolerationSeconds = ptr.To[int64](301) }), true},
		"of a value": {byDefault(func(t *corev1.Toleration) {
			t.Operator, t.Value = corev1.TolerationOpEqual, "x"
		}), true},
		"of another effect": {byDefault(func(t *corev1.Toleration) { t.Effect = corev1.TaintEffectNoSchedule }), true},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := mustProxy(t, elected(nil, nil))
			before := len(mustChaperon(t, proxy).Spec.Tolerations)
			proxy.Spec.Tolerations = append(proxy.Spec.Tolerations, test.toleration)
			if added := len(mustChaperon(t, proxy).Spec.Tolerations) > before; added != test.added {
				t.Errorf("the delegate gets it: %v", added)
			}
		})
	}
}
