package translate

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

func TestWhetherTheEndOfADelegateIsAskedFor(t *testing.T) {
	const nobody = "nobody asks"
	for value, test := range map[string]struct {
		grace *int64
		asked bool
	}{
		nobody:                 {nil, false},
		"":                     {nil, true},
		"0":                    {ptr.To[int64](0), true},
		"30":                   {ptr.To[int64](30), true},
		"-1":                   {nil, false},
		"30s":                  {nil, false},
		"33333333333333333333": {nil, false},
	} {
		chaperon := &v1alpha1.PodChaperon{}
		if value != nobody {
			chaperon.Annotations = map[string]string{v1alpha1.AnnotationDeletionGracePeriod: value}
		}
		grace, asked := EndAsked(chaperon)
		if asked != test.asked || !ptr.Equal(grace, test.grace) {
			t.Errorf("%q: grace %v, asked %v", value, grace, asked)
		}
	}
}

func TestAWithdrawalMeansNothingOnceTheDelegateHasANode(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: status}
	}
	bound := condition(corev1.PodScheduled, corev1.ConditionTrue)
	for name, test := range map[string]struct {
		status corev1.PodStatus
		want   bool
	}{
		"nothing is known": {corev1.PodStatus{}, true},
		"it has no node": {corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			condition(corev1.PodScheduled, corev1.ConditionFalse),
		}}, true},
		"it has a node": {
			corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{bound}}, false,
		},
		"it runs":         {corev1.PodStatus{Phase: corev1.PodRunning}, false},
		"it has finished": {corev1.PodStatus{Phase: corev1.PodSucceeded}, false},
		"it was lost": {corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{
			bound, condition(v1alpha1.ConditionDelegate, corev1.ConditionFalse),
		}}, true},
	} {
		chaperon := &v1alpha1.PodChaperon{Status: test.status}
		if Withdrawn(chaperon) || ToEnd(chaperon) {
			t.Errorf("%s: withdrawn although nobody asked for it", name)
		}
		chaperon.Annotations = map[string]string{v1alpha1.AnnotationWithdrawn: ""}
		if Withdrawn(chaperon) != test.want || ToEnd(chaperon) != test.want {
			t.Errorf("%s: withdrawn: %t, to end: %t", name, Withdrawn(chaperon), ToEnd(chaperon))
		}
		chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod] = ""
		if !ToEnd(chaperon) {
			t.Errorf("%s: its end was asked for, too", name)
		}
	}
}

func TestAPodIsDeletedWhenItIsBound(t *testing.T) {
	bound := metav1.Now()
	unbound := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	deletedAfter := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.DeletionTimestamp.Time = bound.Add(d) }
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"in the same second":            {deletedAfter(0), true},
		"before, by the server's clock": {deletedAfter(-time.Second), true},
		"at an unknown time":            {func(p *corev1.Pod) { p.DeletionTimestamp = nil }, true},
		"later":                         {deletedAfter(timeouts.BindingRace), false},
		"as it runs":                    {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false},
		"as it has failed":              {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"unbound":                       {unbound, false},
		"created as a bound pod":        {func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: bound.DeepCopy()},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: bound},
				}},
			}
			test.change(pod)
			if got := DeletedWhenBound(pod); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}
