package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
)

// scene is a target with a pod, the condition Ready of its node so far, and when the last renewal was sent to it.
type scene struct {
	connected metav1.Condition
	pod       *corev1.Pod
	was       corev1.NodeCondition
	sent, now time.Time
	// since is since when this process wants the node NotReady, or zero.
	since time.Time
}

// ready returns the condition Ready that the node gets.
func (s scene) ready(t *testing.T) corev1.ConditionStatus {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	pods := fake.NewClientBuilder().WithScheme(scheme).WithObjects(s.pod).
		WithIndex(&corev1.Pod{}, podcache.IndexNode, podcache.NodeOfProxy).Build()
	r := &Reconciler{options: Options{
		Proxies: podcache.NewByNode(pods, nil),
		LastRenewal: func(target types.NamespacedName) time.Time {
			if target.Name != "c2" {
				t.Errorf("renewals to %s were asked for", target)
			}
			return s.sent
		},
	}}
	f := facts{
		notReadySince: s.since,

		key: types.NamespacedName{Name: "c2"}, now: metav1.NewTime(s.now),
		status:   v1alpha1.TargetStatus{Conditions: []metav1.Condition{s.connected}},
		existing: &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{s.was}}},
	}
	var err error
	if f.spared, err = r.isSpared(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return readyCondition(f).Status
}

func fencedPod(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "p", Annotations: map[string]string{v1alpha1.AnnotationFencedAfter: "60"},
		},
		Spec: corev1.PodSpec{NodeName: "admiralty-c2", SchedulerName: v1alpha1.SchedulerName},
	}
	if change != nil {
		change(pod)
	}
	return pod
}

// Pods of a target that flaps are evicted 300 s after its node became NotReady. Fenced delegates may end later, because
// the target hears of the source in between.
func TestAFlappingTargetWithFencedDelegatesIsUnknown(t *testing.T) {
	flaps := connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonFlapping)
	for name, test := range map[string]struct {
		status v1alpha1.TargetStatus
		change func(*corev1.Pod)
		want   corev1.ConditionStatus
	}{
		"a delegate is fenced": {flaps, nil, corev1.ConditionUnknown},
		"no delegate is fenced": {
			flaps, func(p *corev1.Pod) { p.Annotations = nil }, corev1.ConditionFalse,
		},
		"a delegate of another target is": {
			flaps, func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" }, corev1.ConditionFalse,
		},
		"the target is lost": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable), nil, corev1.ConditionFalse,
		},
		"the target is connected": {
			connectedStatus(metav1.ConditionTrue, v1alpha1.ReasonConnected), nil, corev1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			was := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
			s := scene{test.status.Conditions[0], fencedPod(test.change), was, time.Time{}, time.Unix(1000, 0),
				time.Time{}}
			if got := s.ready(t); got != test.want {
				t.Errorf("Ready is %s, want %s", got, test.want)
			}
		})
	}
}

// A target whose first list never ends is lost, and hears of the source at each attempt to connect. Its fenced
// delegates then run on, so Kubernetes must not go on counting the time until their proxies are evicted.
func TestANodeIsNotReadyOnlyIfNoRenewalWasSentSince(t *testing.T) {
	is := func(status corev1.ConditionStatus, since int64) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.Unix(since, 0),
		}
	}
	ready, notReady := is(corev1.ConditionTrue, 10), is(corev1.ConditionFalse, 1000)
	unknown := is(corev1.ConditionUnknown, 1010)
	for name, test := range map[string]struct {
		reason string
		was    corev1.NodeCondition
		sent   int64
		now    int64
		change func(*corev1.Pod)
		unseen bool // Another process made the node NotReady. This one did at 1000.
		want   corev1.ConditionStatus
	}{
		"it has just been lost": {was: ready, sent: 975, now: 1000, want: corev1.ConditionFalse},
		"it has heard of nobody since it was lost": {
			was: notReady, sent: 999, now: 1200, want: corev1.ConditionFalse,
		},
		"a renewal in the second in which it was lost": {
			was: notReady, sent: 1000, now: 1200, want: corev1.ConditionUnknown,
		},
		"a renewal since, and somebody has set the clock back": {
			was: is(corev1.ConditionFalse, 5000), sent: 1100, now: 1200, want: corev1.ConditionUnknown,
		},
		"the last leader's clock was ahead": {
			was: is(corev1.ConditionFalse, 5000), sent: 1100, now: 1200, unseen: true, want: corev1.ConditionUnknown,
		},
		"a renewal since, or a new leader": {was: notReady, sent: 1100, now: 1200, want: corev1.ConditionUnknown},
		"a renewal since to a target without fenced delegates": {
			was: notReady, sent: 1100, now: 1200, want: corev1.ConditionFalse,
			change: func(p *corev1.Pod) { p.Annotations = nil },
		},
		"the next renewal may follow": {was: unknown, sent: 1100, now: 1159, want: corev1.ConditionUnknown},
		"no renewal follows":          {was: unknown, sent: 1100, now: 1160, want: corev1.ConditionFalse},
		"this source never sent any":  {was: notReady, now: 1200, want: corev1.ConditionFalse},
		"it is over its budget again": {
			reason: v1alpha1.ReasonOverBudget, was: notReady, sent: 1100, now: 1200, want: corev1.ConditionUnknown,
		},
		"it is still engaged, and its address is refused": {
			reason: v1alpha1.ReasonAddressRefused, was: notReady, sent: 1100, now: 1200, want: corev1.ConditionUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason := test.reason
			if reason == "" {
				reason = v1alpha1.ReasonUnreachable
			}
			connected := connectedStatus(metav1.ConditionFalse, reason).Conditions[0]
			var sent time.Time
			if test.sent > 0 {
				sent = time.Unix(test.sent, 0)
			}
			since := time.Unix(1000, 0)
			if test.unseen {
				since = time.Time{}
			}
			s := scene{connected, fencedPod(test.change), test.was, sent, time.Unix(test.now, 0), since}
			if got := s.ready(t); got != test.want {
				t.Errorf("Ready is %s, want %s", got, test.want)
			}
		})
	}
}

func TestATargetThatMayHearOfTheSourceIsLookedAtAgain(t *testing.T) {
	lost := facts{status: connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)}
	refused := facts{status: connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonForbidden)}
	for name, test := range map[string]struct {
		f          facts
		next, want time.Duration
	}{
		"it is lost":                           {f: lost, want: lookAtRenewals},
		"it is lost, and its node is not done": {f: lost, next: time.Second, want: time.Second},
		"it is lost, and its node is to wait":  {f: lost, next: time.Minute, want: lookAtRenewals},
		"it refuses the source":                {f: refused},
		"it is connected":                      {f: engagedFacts(), next: time.Minute, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nextLook(test.f, test.next); got != test.want {
				t.Errorf("the next look is after %s, want %s", got, test.want)
			}
		})
	}
}

func TestTheTimeOfANodeThatIsNotReadyBeginsWhenThisProcessWantsItSo(t *testing.T) {
	s := newSource(t, nil, nil, interceptor.Funcs{})
	lost := facts{key: c2, status: connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)}
	connectedNow := facts{key: c2, status: connectedStatus(metav1.ConditionTrue, v1alpha1.ReasonConnected)}
	for i, step := range []struct {
		f         facts
		now, want int64
	}{{connectedNow, 10, 0}, {lost, 20, 20}, {lost, 30, 20}, {connectedNow, 40, 0}, {lost, 50, 50}} {
		step.f.now = metav1.Unix(step.now, 0)
		s.noteReadiness(step.f)
		want := time.Time{}
		if step.want > 0 {
			want = time.Unix(step.want, 0)
		}
		if got := s.notReadySince(c2); !got.Equal(want) {
			t.Errorf("step %d: since %s, want %s", i, got, want)
		}
	}
	s.remember(c2)
	s.forget("admiralty-c2")
	if got := s.notReadySince(c2); !got.IsZero() {
		t.Errorf("a node that is gone is NotReady since %s", got)
	}
}
