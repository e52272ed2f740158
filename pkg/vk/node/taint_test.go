package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestTheTaintsOfATargetThatIsSilentAndUnresponsive(t *testing.T) {
	silent := corev1.Taint{Key: v1alpha1.TaintSilent, Effect: corev1.TaintEffectNoSchedule}
	unresponsive := corev1.Taint{Key: v1alpha1.TaintUnresponsive, Effect: corev1.TaintEffectNoSchedule}
	status := v1alpha1.TargetStatus{Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionAwake, Status: metav1.ConditionFalse},
		{Type: v1alpha1.ConditionResponsive, Status: metav1.ConditionFalse},
	}}
	for _, test := range []struct{ taints, want []corev1.Taint }{
		{nil, []corev1.Taint{silent, unresponsive}},
		{[]corev1.Taint{unresponsive}, []corev1.Taint{unresponsive, silent}},
		{[]corev1.Taint{unresponsive, silent}, nil},
	} {
		if diff := cmp.Diff(test.want, closed(test.taints, status)); diff != "" {
			t.Error(diff)
		}
	}
	status.Conditions[0].Status = metav1.ConditionTrue
	got := closed([]corev1.Taint{silent, unresponsive}, status)
	if diff := cmp.Diff([]corev1.Taint{unresponsive}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheTaintOfSilenceComesAndGoesWithTheCondition(t *testing.T) {
	provider, users := Taint(), corev1.Taint{Key: "users", Effect: corev1.TaintEffectNoExecute}
	silent := corev1.Taint{Key: v1alpha1.TaintSilent, Effect: corev1.TaintEffectNoSchedule}
	for name, test := range map[string]struct {
		awake        metav1.ConditionStatus // empty if there is no condition
		taints, want []corev1.Taint
	}{
		"a silent manager": {
			metav1.ConditionFalse, []corev1.Taint{provider, users}, []corev1.Taint{provider, users, silent},
		},
		"still silent": {metav1.ConditionFalse, []corev1.Taint{provider, silent}, nil},
		"awake again": {
			metav1.ConditionTrue, []corev1.Taint{provider, silent, users}, []corev1.Taint{provider, users},
		},
		"awake":                 {metav1.ConditionTrue, []corev1.Taint{provider}, nil},
		"no Lease any more":     {"", []corev1.Taint{silent}, []corev1.Taint{}},
		"a manager without one": {"", []corev1.Taint{provider, users}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			status := v1alpha1.TargetStatus{}
			if test.awake != "" {
				status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAwake, Status: test.awake}}
			}
			if diff := cmp.Diff(test.want, closed(test.taints, status)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
