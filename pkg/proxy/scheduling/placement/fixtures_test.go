package placement

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The fixtures of package schedulingtest, by shorter names.
var (
	deleting    = schedulingtest.Deleting
	eventually  = schedulingtest.Eventually
	inPhase     = schedulingtest.InPhase
	newChaperon = schedulingtest.NewChaperon
	newPod      = schedulingtest.NewPod
	resources   = schedulingtest.Resources
	summary     = schedulingtest.Summary
	with        = schedulingtest.With
)

// world is a Placer with engaged targets whose API servers are fakes.
type world struct {
	*Placer
	clock    schedulingtest.Clock
	registry *engage.Registry
}

func newWorld() *world {
	w := &world{clock: schedulingtest.NewClock(), registry: engage.NewRegistry()}
	w.Placer = New(Options{
		Source:  translate.Source{ClusterID: "source"},
		Sign:    func(proof.Claim) (string, error) { return "signed", nil },
		Timeout: time.Minute,
		Clock:   w.clock,
		Ensure:  func(context.Context, *corev1.Pod, *engage.Target) error { return nil },
	})
	return w
}

// engage a target that is reachable, and whose API server does what funcs do.
func (w *world) engage(t testing.TB, name string, funcs interceptor.Funcs) *Target {
	t.Helper()
	return NewTarget(t.Context(), schedulingtest.Engage(t, w.registry, name, funcs), "source", w.clock)
}

// place a pod that the target has room for, and return the error.
func (w *world) place(ctx context.Context, pod *corev1.Pod, at *Target) error {
	_, err := w.Place(ctx, pod, at, Expectation{Waiting: func(string) {}})
	return err
}
