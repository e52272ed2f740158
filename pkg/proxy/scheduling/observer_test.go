package scheduling

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// TestWhatATargetMayHaveBesideAProxyIsKnownUntilTheProxyIsGone has a target that was lost when it was asked for a
// delegate, and a proxy that is bound elsewhere then.
func TestWhatATargetMayHaveBesideAProxyIsKnownUntilTheProxyIsGone(t *testing.T) {
	for name, test := range map[string]struct {
		nodeName string
		state    placement.ProxyState
		known    bool
	}{
		"it is bound":                 {"admiralty-c2", placement.ProxyBound, true},
		"it was bound":                {"admiralty-c2", placement.ProxyGone, true}, // It may have finished.
		"it is gone, and had no node": {"", placement.ProxyGone, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			slow := func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				return apierrors.NewTimeoutError("slow", 0)
			}
			c1 := w.engage(t, "c1", interceptor.Funcs{Create: slow})
			w.placer = placement.New(placement.Options{
				Source: translate.Source{ClusterID: "source"}, Timeout: time.Minute, Clock: w.clock,
				Sign:   func(proof.Claim) (string, error) { return "signed", nil },
				Ensure: func(context.Context, *corev1.Pod, *engage.Target) error { return nil },
			})
			s, pod := &Scheduler{plugin: w.plugin}, newPod("p", nil)
			expected := placement.Expectation{Waiting: func(placement.Wait, string) {}}
			if _, err := w.placer.Place(t.Context(), pod, c1.Target, expected); err == nil {
				t.Fatal("the target has answered")
			}
			pod.Spec.NodeName = test.nodeName
			s.proxyConcluded(pod, test.state)
			if known := s.PlacedBeside(pod.UID, "admiralty-c2") == c1.Target.Target; known != test.known {
				t.Errorf("it is known: %t, want %t", known, test.known)
			}
			if beside := s.PlacedBeside(pod.UID, c1.NodeName); beside != nil {
				t.Errorf("beside its own node is %s", beside.NodeName)
			}
		})
	}
}
