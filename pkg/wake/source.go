package wake

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Source is a source.Source of one controller. The zero value is ready for use, and safe for concurrent use.
type Source struct {
	started atomic.Pointer[started]
}

type started struct {
	ctx   context.Context //nolint:containedctx // it is the controller's life, which Context hands on
	queue queue
}

// Start is called by the controller.
func (s *Source) Start(ctx context.Context, queue queue) error {
	s.started.Store(&started{ctx: ctx, queue: queue})
	return nil
}

// Wake has the controller reconcile key soon. Before the controller has started it does nothing, as the controller then
// reconciles every object anyway.
func (s *Source) Wake(key types.NamespacedName) { s.WakeAfter(key, 0) }

// WakeAfter has the controller reconcile key after a delay.
func (s *Source) WakeAfter(key types.NamespacedName, delay time.Duration) {
	if started := s.started.Load(); started != nil {
		started.queue.AddAfter(reconcile.Request{NamespacedName: key}, delay)
	}
}

// Context ends with the controller; what a reconciler starts for longer than one call of it lives in it. The controller
// must have started: reconcilers may rely on it.
func (s *Source) Context() context.Context { return s.started.Load().ctx }
