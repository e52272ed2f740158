package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

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
			if diff := cmp.Diff(test.want, withSilence(test.taints, status)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
