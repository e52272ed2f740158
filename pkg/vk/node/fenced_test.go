package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Pods of a target that flaps are evicted 300 s after its node became NotReady. Fenced delegates may end later, because
// the target hears of the source in between.
func TestAFlappingTargetWithFencedDelegatesIsUnknown(t *testing.T) {
	flaps := connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonFlapping)
	for name, test := range map[string]struct {
		status v1alpha1.TargetStatus
		change func(*corev1.Pod)
		want   corev1.ConditionStatus
	}{
		"a delegate is fenced": {flaps, func(*corev1.Pod) {}, corev1.ConditionUnknown},
		"no delegate is fenced": {
			flaps, func(p *corev1.Pod) { p.Annotations = nil }, corev1.ConditionFalse,
		},
		"a delegate of another target is": {
			flaps, func(p *corev1.Pod) { p.Spec.NodeName = "admiralty-c3" }, corev1.ConditionFalse,
		},
		"the target is lost": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable), func(*corev1.Pod) {},
			corev1.ConditionFalse,
		},
		"the target is connected": {
			connectedStatus(metav1.ConditionTrue, v1alpha1.ReasonConnected), func(*corev1.Pod) {}, corev1.ConditionTrue,
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "default", Name: "p",
					Annotations: map[string]string{v1alpha1.AnnotationFencedAfter: "60"},
				},
				Spec: corev1.PodSpec{NodeName: "admiralty-c2"},
			}
			test.change(pod)
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			r := &Reconciler{options: Options{
				Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).Build(),
			}}
			fenced, err := r.isFenced(t.Context(), test.status, "admiralty-c2")
			if err != nil {
				t.Fatal(err)
			}
			if is := readyCondition(facts{status: test.status, fenced: fenced}); is.Status != test.want {
				t.Errorf("Ready is %s, want %s", is.Status, test.want)
			}
		})
	}
}
