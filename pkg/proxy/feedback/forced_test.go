package feedback

import (
	"cmp"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// boundThen binds a terminating pod in the moment of its deletion.
func boundThen(pod *corev1.Pod) {
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: *pod.DeletionTimestamp,
	}}}
}

func TestAProxyThatGoesByForceLeavesItsDelegateASecond(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		lost    bool
		unknown bool // the last state of the pod
		early   bool // The event of the deletion comes later.
		want    string
	}{
		"by force":                           {pod: proxy(terminating(0)), want: "c1 in 1, if an orphan"},
		"a moment ago":                       {pod: proxy(terminating(0)), early: true, want: "c1 in 1, if an orphan"},
		"as its delegate has ended":          {pod: proxy(terminating(0), phase(corev1.PodFailed))},
		"with a grace period":                {pod: proxy(terminating(30))},
		"before it was bound":                {pod: proxy(terminating(0), unbound)},
		"in the moment when it was bound":    {pod: proxy(terminating(0), boundThen)},
		"the same, a moment ago":             {pod: proxy(terminating(0), boundThen), early: true},
		"while its target cannot be reached": {pod: proxy(terminating(0)), lost: true},
		"and its last state is not known":    {pod: proxy(terminating(0)), unknown: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			f := s.feedback
			target := &engage.Target{Key: types.NamespacedName{Name: "c2"}, NodeName: node}
			if test.lost {
				engage.NewRegistry().Lapse(target)
			}
			f.queues.Set(t.Context(), target, routed{target, newQueue(t)})
			if test.early {
				f.PodHandler().Update(t.Context(),
					event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: proxy(), ObjectNew: test.pod}, newQueue(t))
			} else {
				gone := event.TypedDeleteEvent[*corev1.Pod]{Object: test.pod, DeleteStateUnknown: test.unknown}
				f.PodHandler().Delete(t.Context(), gone, newQueue(t))
			}
			at := state{
				nodeName: node, chaperons: []v1alpha1.PodChaperon{chaperon()}, forced: f.wasForced,
				vet: anyAddress, now: time.Unix(2000, 0),
			}
			want := cmp.Or(test.want, "c1, if an orphan")
			if got := describe(decide(at).endings); len(got) != 1 || got[0] != want {
				t.Errorf("endings are %q, want %q", got, want)
			}
		})
	}
}
