package scheduling

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// TestAPodGoesElsewhereOnlyWhenADelegateWithoutAPodChaperonHasEnded has somebody in a target who deletes the
// PodChaperon of a pod that is not bound, in the background. The source may not read pods in targets.
func TestAPodGoesElsewhereOnlyWhenADelegateWithoutAPodChaperonHasEnded(t *testing.T) {
	const background = client.PropagationPolicy(metav1.DeletePropagationBackground)
	for name, remove := range map[string]func(t *testing.T, s *scheduler, chaperon *v1alpha1.PodChaperon){
		"the leader sees it": func(t *testing.T, s *scheduler, chaperon *v1alpha1.PodChaperon) {
			t.Helper()
			env.Delete(t, cluster1, chaperon, background)
		},
		"the leader changes": func(t *testing.T, s *scheduler, chaperon *v1alpha1.PodChaperon) {
			t.Helper()
			s.stop()
			env.Delete(t, cluster1, chaperon, background)
			s.run(t, long)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, long, preferC1())
			s.answer("c1", gated)
			pod := s.pod(t, "web", "1")
			chaperon := s.placed(t, "c1", 1)
			env.Create(t, cluster1, &corev1.ServiceAccount{ObjectMeta: env.Meta(s.namespace, "default")})
			delegate := &corev1.Pod{ObjectMeta: env.Meta(s.namespace, chaperon.Name), Spec: env.PodSpec()}
			env.Create(t, cluster1, delegate)
			s.summarize(t, "c1", "0")
			remove(t, s, chaperon)
			waits := fmt.Sprintf("the PodChaperon of delegate %q in c1 was deleted", delegate.Name)
			env.WaitFor(t, source, pod, func(pod *corev1.Pod) error {
				if message := messageOf(t, pod); !strings.Contains(message, waits) {
					return fmt.Errorf("the message is %q", message)
				}
				return nil
			})
			s.placed(t, "c2", 0)
			env.Delete(t, cluster1, delegate, client.GracePeriodSeconds(0))
			expectBound(t, pod, "c2")
		})
	}
}
