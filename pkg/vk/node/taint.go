package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// closing are the conditions of a target that keep new pods away while they are False, and the keys of the taints that
// do so: its manager is silent, or its API server does not answer well.
var closing = []struct{ condition, taint string }{ //nolint:gochecknoglobals // constant
	{v1alpha1.ConditionAwake, v1alpha1.TaintSilent},
	{v1alpha1.ConditionResponsive, v1alpha1.TaintUnresponsive},
}

// closed returns the taints of a node with those that its target's conditions ask for, and without the others of these
// kinds, or nil if they are as they should be.
func closed(taints []corev1.Taint, status v1alpha1.TargetStatus) []corev1.Taint {
	wanted, changed := slices.Clone(taints), false
	for _, by := range closing {
		ours := func(t corev1.Taint) bool { return t.Key == by.taint && t.Effect == corev1.TaintEffectNoSchedule }
		closes := meta.IsStatusConditionFalse(status.Conditions, by.condition)
		if slices.ContainsFunc(wanted, ours) == closes {
			continue
		}
		changed = true
		if closes {
			wanted = append(wanted, corev1.Taint{Key: by.taint, Effect: corev1.TaintEffectNoSchedule})
		} else {
			wanted = slices.DeleteFunc(wanted, ours)
		}
	}
	if !changed {
		return nil
	}
	return wanted
}
