package placement

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

func TestRead(t *testing.T) {
	type change = func(*v1alpha1.PodChaperon)
	hasNode := with(corev1.PodScheduled, corev1.ConditionTrue, "", "")
	unschedulable := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "0/1 nodes")
	for name, test := range map[string]struct {
		changes []change
		want    answer
		reason  string
	}{
		"a delegate of which nothing is known is waited for": {want: waiting},
		"a scheduled delegate is bound": {
			changes: []change{inPhase(corev1.PodPending), hasNode}, want: scheduled,
		},
		"a running delegate is bound, whatever its conditions": {
			changes: []change{inPhase(corev1.PodRunning)}, want: scheduled,
		},
		"a delegate that finished is bound": {
			changes: []change{inPhase(corev1.PodFailed)}, want: scheduled,
		},
		"an unschedulable delegate does not fit": {
			changes: []change{inPhase(corev1.PodPending), unschedulable}, want: unfit,
			reason: "unschedulable: 0/1 nodes",
		},
		"a delegate whose ephemeral volume has no claim yet is waited for": {
			changes: []change{with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable,
				"0/3 nodes are available: waiting for ephemeral volume controller to create the "+
					`persistentvolumeclaim "web-1-x-data". not found`)},
			want: waiting,
		},
		"a delegate whose claim gets its volume just now is waited for": {
			changes: []change{with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable,
				"0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found")},
			want: waiting,
		},
		"a gated delegate is waited for": {
			changes: []change{with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")},
			want:    held, reason: "held back by scheduling gates",
		},
		"a delegate that others make room for is waited for": {
			changes: []change{unschedulable, func(c *v1alpha1.PodChaperon) { c.Status.NominatedNodeName = "n" }},
			want:    held, reason: "preempting other pods",
		},
		"a delegate that admission refuses is refused": {
			changes: []change{
				with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "quota"),
			},
			want: refused, reason: "refused: quota",
		},
		"a delegate that was deleted is refused though scheduled": {
			changes: []change{
				hasNode, with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, ""),
			},
			want: refused, reason: "the delegate was deleted there",
		},
		"a delegate that finished is bound though it is gone": {
			changes: []change{
				inPhase(corev1.PodSucceeded),
				with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateGone, ""),
			},
			want: scheduled,
		},
		"a PodChaperon that is being deleted is gone": {
			changes: []change{hasNode, deleting}, want: gone, reason: "the PodChaperon is being deleted",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason := read(newChaperon("c", "p", test.changes...))
			if got != test.want || reason != test.reason {
				t.Errorf("got %v because %q, want %v because %q", got, reason, test.want, test.reason)
			}
		})
	}
}

// nobodyLooked is what a PodChaperon without a status means.
const nobodyLooked = ": the target has not created the delegate, or no scheduler there has looked at it"

func TestOverdue(t *testing.T) {
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		want     string
	}{
		"the target did not create the delegate": {
			newChaperon("c", "p"), "not scheduled within 60s" + nobodyLooked,
		},
		"the target failed to create the delegate": {
			newChaperon("c", "p", warned("FailedMount", "no"), warned("FailedCreate", "failed calling webhook")),
			"not scheduled within 60s: the target has not created the delegate (failed calling webhook)",
		},
		"no scheduler looked at the delegate": {
			newChaperon("c", "p", warned("FailedMount", "no"), warned("FailedResourceClaimCreation", "no template")),
			"not scheduled within 60s: no scheduler there has looked at the delegate (FailedMount: no)",
		},
		"the target failed at first": {
			newChaperon("c", "p", warned("FailedCreate", "failed calling webhook"),
				with("Initialized", corev1.ConditionTrue, "", "")),
			"not scheduled within 60s",
		},
		"a gate was not lifted": {
			newChaperon("c", "p", with(corev1.PodScheduled, corev1.ConditionFalse, "SchedulingGated", "quota")),
			"not scheduled within 60s (SchedulingGated: quota)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := overdue(test.chaperon, time.Minute); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// warned adds a warning of the target's manager.
func warned(reason, message string) func(*v1alpha1.PodChaperon) {
	return func(c *v1alpha1.PodChaperon) {
		c.Status.Conditions = append(c.Status.Conditions, translate.Warning(reason, message, time.Unix(1e9, 0)))
	}
}

func TestPatience(t *testing.T) {
	full := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable, "full")
	gated := with(corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonSchedulingGated, "")
	nominated := func(c *v1alpha1.PodChaperon) { c.Status.NominatedNodeName = "n" }
	minutes := func(m int) *metav1.Duration { return &metav1.Duration{Duration: time.Duration(m) * time.Minute} }
	own := &v1alpha1.PlacementPolicy{
		PlacementTimeout: minutes(2),
		QueueingTimeout:  minutes(20),
		ScaleUp:          &v1alpha1.ScaleUp{Timeout: minutes(30)},
	}
	for name, test := range map[string]struct {
		policy *v1alpha1.PlacementPolicy
		grows  bool
		seen   *v1alpha1.PodChaperon
		// want is how long the target has, and refusal what it is when that has passed.
		want    time.Duration
		refusal RefusedError
	}{
		"a silent target": {
			&v1alpha1.PlacementPolicy{}, false, newChaperon("c", "p"), time.Minute,
			RefusedError{
				Target: "c1", Reason: "not scheduled within 60s" + nobodyLooked,
				Refusal: Late,
			},
		},
		"a silent target with a time-out that is none": {
			&v1alpha1.PlacementPolicy{PlacementTimeout: minutes(0)}, false, newChaperon("c", "p"), time.Minute,
			RefusedError{
				Target: "c1", Reason: "not scheduled within 60s" + nobodyLooked,
				Refusal: Late,
			},
		},
		"a silent target with a time-out of its own": {
			own, false, newChaperon("c", "p"), 2 * time.Minute,
			RefusedError{
				Target: "c1", Reason: "not scheduled within 2m" + nobodyLooked, Refusal: Late,
			},
		},
		"a target that holds the delegate back": {
			&v1alpha1.PlacementPolicy{}, false, newChaperon("c", "p", gated), 10 * time.Minute,
			RefusedError{Target: "c1", Reason: "not scheduled within 10m (SchedulingGated: )", Refusal: Late},
		},
		"a target that holds the delegate back, with a time-out of its own": {
			own, false, newChaperon("c", "p", gated), 20 * time.Minute,
			RefusedError{Target: "c1", Reason: "not scheduled within 20m (SchedulingGated: )", Refusal: Late},
		},
		"a target that holds the delegate back has at least as long as one that says nothing": {
			&v1alpha1.PlacementPolicy{PlacementTimeout: minutes(30), QueueingTimeout: minutes(5)}, false,
			newChaperon("c", "p", gated), 30 * time.Minute,
			RefusedError{Target: "c1", Reason: "not scheduled within 30m (SchedulingGated: )", Refusal: Late},
		},
		"a target that preempts": {
			&v1alpha1.PlacementPolicy{}, false, newChaperon("c", "p", full, nominated), 10 * time.Minute,
			RefusedError{Target: "c1", Reason: "not scheduled within 10m (Unschedulable: full)", Refusal: Late},
		},
		"a target without room": {
			own, false, newChaperon("c", "p", full), 0,
			RefusedError{Target: "c1", Reason: "unschedulable: full", Refusal: Unschedulable},
		},
		"a target without room that is to grow": {
			own, true, newChaperon("c", "p", full), 30 * time.Minute,
			RefusedError{Target: "c1", Reason: "no node was added within 30m (unschedulable: full)", Refusal: Late},
		},
		"a target that refuses": {
			own, true,
			newChaperon(
				"c", "p",
				with(v1alpha1.ConditionDelegate, corev1.ConditionFalse, v1alpha1.ReasonDelegateRefused, "quota"),
			),
			0,
			RefusedError{Target: "c1", Reason: "refused: quota", Refusal: Forbidden},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c1 := newWorld().engage(t, "c1", interceptor.Funcs{})
			p := newPatience(test.policy, time.Minute, test.grows)
			if refusal, left := p.refusal(c1, test.seen, 0); (refusal == nil) != (test.want > 0) || left != test.want {
				t.Errorf("at the beginning: %v, and %s are left, want %s", refusal, left, test.want)
			}
			refusal, _ := p.refusal(c1, test.seen, test.want)
			if refusal == nil || *refusal != test.refusal {
				t.Errorf("at the end: %+v, want %+v", refusal, test.refusal)
			}
		})
	}
}
