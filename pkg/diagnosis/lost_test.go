package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestSummaryOfPodsInTargetsThatDoNotAnswer(t *testing.T) {
	const (
		runs    = "Pod team/web runs in c2 (virtual node admiralty-c2)"
		unknown = "; this is the status last seen: its virtual node is Unknown (Unauthorized)"
		stops   = "\nIt is fenced: its target, if its manager fences pods, stops it 120 s after it last heard of " +
			"this cluster."
		confirmed = " If it is deleted, its end is confirmed at most 390 s after the last renewal of this " +
			"cluster's Lease there, or after a new leader began, and only while the reason of the target is " +
			"Unreachable and the target's manager was not silent before."
	)
	for name, test := range map[string]struct {
		phase corev1.PodPhase
		fence string
		ready corev1.ConditionStatus // empty if nobody could read the node
		want  string
	}{
		"the node cannot be read": {corev1.PodRunning, "", "", runs + "."},
		"the node is Ready":       {corev1.PodRunning, "", corev1.ConditionTrue, runs + "."},
		"the node is Unknown":     {corev1.PodRunning, "", corev1.ConditionUnknown, runs + unknown + "."},
		"the node is NotReady": {
			corev1.PodRunning, "", corev1.ConditionFalse,
			runs + strings.Replace(unknown, "Unknown", "NotReady", 1) + ".",
		},
		"the pod was starting": {
			corev1.PodPending, "", corev1.ConditionUnknown,
			"Pod team/web is placed in c2 (virtual node admiralty-c2), and does not run yet" + unknown + ".",
		},
		"the pod is fenced": {corev1.PodRunning, "120", corev1.ConditionTrue, runs + "." + stops},
		"a fenced pod's node is lost": {
			corev1.PodRunning, "120", corev1.ConditionUnknown, runs + unknown + "." + stops + confirmed,
		},
		"somebody wrote nonsense": {corev1.PodRunning, "1", corev1.ConditionTrue, runs + "."},
		"a fenced pod has finished": {
			corev1.PodSucceeded, "120", corev1.ConditionUnknown,
			"Pod team/web has finished (Succeeded) in c2 (virtual node admiralty-c2).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := Subject{Pod: proxy(boundTo(test.phase)), Namespace: enabled(), Explanation: placed()}
			if test.fence != "" {
				s.Pod.Annotations[v1alpha1.AnnotationFencedAfter] = test.fence
			}
			if test.ready != "" {
				s.Node = &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: test.ready, Reason: v1alpha1.ReasonUnauthorized},
				}}}
			}
			if got := strings.Join(s.Summary(now()), "\n"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
