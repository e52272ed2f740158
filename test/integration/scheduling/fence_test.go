package scheduling

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestABoundPodSaysWhenItsDelegateIsFenced has a pod that asks for fencing, and two targets. One can fence.
func TestABoundPodSaysWhenItsDelegateIsFenced(t *testing.T) {
	s := start(t, long, equal())
	s.stop()
	s.targets["c1"].Customize = func(target *engage.Target) {
		target.Confirms = func(context.Context) error { return nil }
		target.SetFences(true)
	}
	s.run(t, long)
	asks := func(pod *corev1.Pod) { pod.Annotations[v1alpha1.AnnotationFenceAfter] = "90" }
	fenced, unfenced := s.pod(t, "fenced", "1", onNode("c1"), asks), s.pod(t, "unfenced", "1", onNode("c2"), asks)
	plain := s.pod(t, "plain", "1", onNode("c1"))
	bound(t, fenced, unfenced, plain)
	for pod, want := range map[*corev1.Pod]string{fenced: "90", unfenced: "", plain: ""} {
		if got := env.Get(t, source, pod).Annotations[v1alpha1.AnnotationFencedAfter]; got != want {
			t.Errorf("%s is fenced after %q, want %q", pod.Name, got, want)
		}
	}
	for pod, want := range map[*corev1.Pod]string{fenced: "90", plain: ""} {
		if got := s.chaperonOf(t, "c1", pod).Annotations[v1alpha1.AnnotationFenceAfter]; got != want {
			t.Errorf("the PodChaperon of %s asks for %q, want %q", pod.Name, got, want)
		}
	}
	if got := s.chaperonOf(t, "c2", unfenced).Annotations[v1alpha1.AnnotationFenceAfter]; got != "" {
		t.Errorf("a target that does not hear of the source is asked to fence after %q", got)
	}
	env.WaitForEvent(t, source, unfenced, "FencingDoesNotHold", "no Lease")
	env.WaitForEvent(t, source, fenced, "Scheduled", "")
}
