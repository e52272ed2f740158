package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

func TestSightingsOfPods(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, scheduled corev1.ConditionStatus, reason string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: scheduled, Reason: reason},
			}},
		}
	}
	w := &watch{changed: make(chan struct{}, 1), pods: map[string]*sighting{}}
	for _, name := range []string{"runs", "retried", "gated", "never"} {
		w.ask(name, time.Now().Add(-time.Minute))
	}
	for _, seen := range []*corev1.Pod{
		pod("runs", corev1.PodRunning, corev1.ConditionTrue, ""),
		pod("runs", corev1.PodRunning, corev1.ConditionTrue, ""),
		pod("retried", corev1.PodPending, corev1.ConditionFalse, "Unschedulable"),
		pod("retried", corev1.PodRunning, corev1.ConditionTrue, ""),
		pod("gated", corev1.PodPending, corev1.ConditionFalse, corev1.PodReasonSchedulingGated),
		pod("gated", corev1.PodRunning, corev1.ConditionTrue, ""),
		pod("somebody else's", corev1.PodRunning, corev1.ConditionTrue, ""),
	} {
		w.see(seen)
	}
	for name, test := range map[string]struct {
		counts func(*sighting) bool
		rate   float64
	}{
		"all latencies count":       {nil, 3},
		"only some latencies count": {func(s *sighting) bool { return !s.retried }, 2},
	} {
		t.Run(name, func(t *testing.T) {
			got := report.Result{}
			w.summarize(&got, test.counts)
			if got.RetriedPods != 1 || got.NeverRan != 1 || !cmp.Equal(got.Spread, map[string]int{"n": 3}) {
				t.Errorf("got %d retried, %d that never ran, by node %v; want 1, 1, 3 on n",
					got.RetriedPods, got.NeverRan, got.Spread)
			}
			p99, rate := got.P99Seconds, got.PodsPerSecond
			if p99 < 60 || p99 > 61 || rate < test.rate/61 || rate > test.rate/60 {
				t.Errorf("got p99 %v s, %v pods/s; want 60 s and %v pods in that time", p99, rate, test.rate)
			}
		})
	}
}
