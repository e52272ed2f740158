package placement

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/schedulingtest"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/waittest"
)

// The fixtures of package schedulingtest, by shorter names.
var (
	deleting    = schedulingtest.Deleting
	eventually  = waittest.Eventually
	inPhase     = schedulingtest.InPhase
	newChaperon = schedulingtest.NewChaperon
	newPod      = schedulingtest.NewPod
	resources   = schedulingtest.Resources
	summary     = schedulingtest.Summary
	with        = schedulingtest.With
)

var podChaperons = schema.GroupResource{Resource: "podchaperons"}

// receive returns what another goroutine sends, and ends the test if nothing comes.
func receive[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	return waittest.Receive(t, what, from)
}

// world is a Placer with engaged targets whose API servers are fakes.
type world struct {
	*Placer
	clock    schedulingtest.Clock
	registry *engage.Registry
	// waits counts how often pods that are being placed have begun to wait for news.
	waits atomic.Int32
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
	_, err := w.Place(ctx, pod, at, Expectation{Waiting: func(Wait, string) { w.waits.Add(1) }})
	return err
}

// server is an API server's part in a placement; a nil function is the fake's own behaviour.
type server struct {
	create, get, remove, ask func() error
}

func (s server) funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if o.GetUID() == "" {
				o.SetUID("c")
			}
			if s.create != nil {
				if err := s.create(); err != nil {
					return err
				}
			}
			return c.Create(ctx, o, options...)
		},
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if s.get != nil {
				if err := s.get(); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if s.remove != nil {
				if err := s.remove(); err != nil {
					return err
				}
			}
			return removeExactly(ctx, c, o, options...)
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
		) error {
			if s.ask != nil {
				if err := s.ask(); err != nil {
					return err
				}
			}
			return endExactly(ctx, c, o, patch, options...)
		},
	}
}

// endExactly is asked to end a delegate, and the target's manager does so at once. The fake itself knows the resource
// version as a precondition, but not the UID.
func endExactly(
	ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	now, asked := &v1alpha1.PodChaperon{}, &v1alpha1.PodChaperon{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
		return err
	}
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, asked); err != nil {
		return err
	}
	if asked.UID != now.UID {
		return apierrors.NewConflict(podChaperons, o.GetName(), errors.New("another UID"))
	}
	if err := c.Patch(ctx, o, patch, options...); err != nil {
		return err
	}
	grace, ending := asked.Annotations[v1alpha1.AnnotationDeletionGracePeriod]
	if !translate.Withdrawn(asked) && (!ending || grace != "") {
		return nil
	}
	return c.Delete(ctx, o)
}

// removeExactly deletes an object. The fake itself knows the resource version as a precondition, but not the UID.
func removeExactly(
	ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption,
) error {
	exactly := (&client.DeleteOptions{}).ApplyOptions(options).Preconditions
	now := &v1alpha1.PodChaperon{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(o), now); err != nil {
		return err
	}
	if exactly != nil && exactly.UID != nil && *exactly.UID != now.UID {
		return apierrors.NewConflict(podChaperons, o.GetName(), errors.New("another UID"))
	}
	return c.Delete(ctx, o, options...)
}

func answering(err error) func() error { return func() error { return err } }
