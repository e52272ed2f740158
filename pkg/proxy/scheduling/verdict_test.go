package scheduling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestDecide(t *testing.T) {
	type change = func(*v1alpha1.PodChaperon)
	scheduled := with(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	unschedulable := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/1 nodes")
	for name, test := range map[string]struct {
		changes []change
		want    verdict
		reason  string
	}{
		"a delegate of which nothing is known is waited for":      {want: wait},
		"a scheduled delegate is bound":                           {changes: []change{inPhase(corev1.PodPending), scheduled}, want: bind},
		"a running delegate is bound, whatever its conditions":    {changes: []change{inPhase(corev1.PodRunning)}, want: bind},
		"a delegate that finished is bound":                       {changes: []change{inPhase(corev1.PodFailed)}, want: bind},
		"an unschedulable delegate is refused":                    {changes: []change{inPhase(corev1.PodPending), unschedulable}, want: refuse, reason: "unschedulable: 0/1 nodes"},
		"a gated delegate is waited for":                          {changes: []change{with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")}, want: wait},
		"a delegate that others make room for is waited for":      {changes: []change{unschedulable, func(c *v1alpha1.PodChaperon) { c.Status.NominatedNodeName = "n" }}, want: wait},
		"what admission refuses is refused":                       {changes: []change{with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "quota")}, want: refuse, reason: "refused: quota"},
		"a delegate that was deleted is refused though scheduled": {changes: []change{scheduled, with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, "")}, want: refuse, reason: "the delegate was deleted there"},
		"a delegate that finished is bound though it is gone":     {changes: []change{inPhase(corev1.PodSucceeded), with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, "")}, want: bind},
		"a PodChaperon that is being deleted is lost":             {changes: []change{scheduled, deleting}, want: lost, reason: "the PodChaperon is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := decide(newChaperon("c", "p", test.changes...))
			if got != test.want || reason != test.reason {
				t.Errorf("got %v because %q, want %v because %q", got, reason, test.want, test.reason)
			}
		})
	}
}

func TestOverdue(t *testing.T) {
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		want     string
	}{
		"nothing happened":      {newChaperon("c", "p"), "not scheduled within 1m0s: the target has not created the delegate"},
		"a gate was not lifted": {newChaperon("c", "p", with(corev1.PodScheduled, corev1.ConditionFalse, "SchedulingGated", "quota")), "not scheduled within 1m0s (SchedulingGated: quota)"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overdue(test.chaperon, time.Minute); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
