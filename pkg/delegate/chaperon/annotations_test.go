package chaperon

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// networked is a delegate that a network plugin annotated.
func networked(pod *corev1.Pod) {
	pod.Annotations = map[string]string{
		v1alpha1.AnnotationWantedAnnotations: "cni.io/*", v1alpha1.AnnotationApplied: "{}", "cni.io/network": "net1",
	}
}

func TestTheStatusShowsTheAnnotationsThatTheSourceWants(t *testing.T) {
	const want = `{"annotations":{"cni.io/network":"net1"}}`
	running := corev1.PodStatus{Phase: corev1.PodRunning}
	for name, test := range map[string]struct {
		chaperon *v1alpha1.PodChaperon
		pod      *corev1.Pod
	}{
		"while it runs": {chaperon: chaperon(running), pod: delegate(running, networked)},
		"while it ends": {chaperon: chaperon(running, grace("5")), pod: delegate(running, networked)},
		"while it is deleted by others": {
			chaperon: chaperon(running), pod: delegate(running, networked, terminatingPod),
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide(test.chaperon, test.pod, false, time.Unix(1000, 0))
			c := translate.PodCondition(d.status.Conditions, v1alpha1.ConditionAnnotations)
			if c == nil || c.Message != want {
				t.Errorf("got %v", c)
			}
		})
	}
}

func TestAnnotationsAloneAreNotWorthAWrite(t *testing.T) {
	pending := corev1.PodStatus{Phase: corev1.PodPending}
	if d := decide(chaperon(corev1.PodStatus{}), delegate(pending, networked), false, time.Now()); d.status != nil {
		t.Errorf("it writes %v", d.status)
	}
}
