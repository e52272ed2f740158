package wake

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type requestQueue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Source is a source.Source of one controller. The zero value is ready to use. It is safe for concurrent use.
type Source struct {
	started atomic.Pointer[started]
}

type started struct {
	ctx   context.Context //nolint:containedctx // it ends with the controller, and Context returns it
	queue requestQueue
}

// Start stores the controller's queue. The controller calls it.
func (s *Source) Start(ctx context.Context, queue requestQueue) error {
	s.started.Store(&started{ctx: ctx, queue: queue})
	return nil
}

// Wake makes the controller reconcile key soon. Before the controller starts, Wake does nothing, because a starting
// controller reconciles every object.
func (s *Source) Wake(key types.NamespacedName) { s.WakeAfter(key, 0) }

// WakeAfter makes the controller reconcile key after a delay.
func (s *Source) WakeAfter(key types.NamespacedName, delay time.Duration) {
	if started := s.started.Load(); started != nil {
		started.queue.AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}

// Context returns the context of the controller. Goroutines that outlive one call of the reconciler run in this
// context. Call it only after the controller has started, as reconcilers do.
func (s *Source) Context() context.Context { return s.started.Load().ctx }
