package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

func now() time.Time { return time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

func exactly(d time.Duration) metav1.MicroTime { return metav1.NewMicroTime(now().Add(-d)) }

// proxy returns a proxy with requests and this status, bound to a virtual node if there is a name.
func proxy(nodeName string, status corev1.PodStatus) *corev1.Pod {
	requests := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web", UID: "1",
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, NodeName: nodeName,
			Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
		Status: status,
	}
}

// pending is the explanation of a pod that no target can take: c2 refused it, c5 was lost, and c3 is asked to grow.
func pending() *diagnosis.Explanation {
	const noMemory = "no node has 4Gi free memory (largest: 1Gi), and 3 nodes have the taint gpu=true:NoSchedule"
	return &diagnosis.Explanation{
		Namespace: "team", Name: "web", UID: "1", Time: ago(90 * time.Second),
		Targets: []diagnosis.Target{
			{
				Name: "c3", Node: "admiralty-c3", Trial: diagnosis.TrialGrow,
				Reason: "no node has 2 free CPUs (largest: 1.5)",
			},
			{Name: "c2", Node: "admiralty-c2", Reason: "left out for 20s: refused: exceeded quota: compute"},
			{Name: "team/c4", Node: "admiralty-team-c4", Reason: noMemory},
		},
		Attempts: []diagnosis.Attempt{
			{
				Target: "c2", Started: exactly(2 * time.Minute), Ended: exactly(2*time.Minute - 350*time.Millisecond),
				Outcome: diagnosis.Refused, Reason: "refused: exceeded quota:\n\tcompute",
			},
			{Target: "c5", Ended: exactly(100 * time.Second), Outcome: diagnosis.Lost, Reason: "c5 was deleted"},
			{
				Target: "c3", Trial: diagnosis.TrialGrow, Started: exactly(90 * time.Second),
				Outcome: diagnosis.Waiting, Reason: "too small",
			},
		},
	}
}

// placed is the explanation of a pod that went to the best target at once.
func placed() *diagnosis.Explanation {
	return &diagnosis.Explanation{
		Namespace: "team", Name: "web", UID: "1", Node: "admiralty-c2", Time: ago(3 * time.Hour),
		Targets: []diagnosis.Target{
			{
				Name: "c2", Node: "admiralty-c2", Chosen: true, Score: new(int64(170)),
				Scores: map[string]int64{"NodeAffinity": 0, "Admiralty": 100, "PodTopologySpread": 70},
			},
			{Name: "c3", Node: "admiralty-c3", Score: new(int64(0))},
		},
		OtherTargets: 4,
		Attempts: []diagnosis.Attempt{
			{
				Target: "c2", Started: exactly(3 * time.Hour), Ended: exactly(3*time.Hour - 12*time.Second),
				Outcome: diagnosis.Bound,
			},
		},
	}
}
