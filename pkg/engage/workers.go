package engage

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is the work queue of Workers.
type Queue[K comparable] = workqueue.TypedRateLimitingInterface[K]

// WorkersOptions configures Workers. All fields are required.
type WorkersOptions[K comparable] struct {
	// Name of the queue in metrics and logs. Workers of all targets share it.
	Name string
	// Reconciler is called for one key by one worker at a time.
	Reconciler reconcile.TypedReconciler[K]
	// Count is the number of workers.
	Count int
	// FirstRetry is the delay after the first error of a key. It doubles with each error, up to LastRetry.
	FirstRetry, LastRetry time.Duration
	// Logger of the workers. It should name the target.
	Logger logr.Logger
}

// Workers reconcile keys from a queue of their own, so that a target that hangs delays no other. They are
// controller-runtime's controller without a manager: a manager does not stop a controller before it stops itself.
type Workers[K comparable] struct {
	// Queue of the keys. It may be filled before Start.
	Queue Queue[K]

	options WorkersOptions[K]
	limiter workqueue.TypedRateLimiter[K]
}

// NewWorkers makes Workers that do nothing before Start.
func NewWorkers[K comparable](options WorkersOptions[K]) *Workers[K] {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[K](options.FirstRetry, options.LastRetry)
	return &Workers[K]{
		Queue: workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
			workqueue.TypedRateLimitingQueueConfig[K]{Name: options.Name}),
		options: options,
		limiter: limiter,
	}
}

// Start starts the workers and returns at once. They end with ctx, and must be started once at most.
func (w *Workers[K]) Start(ctx context.Context) error {
	c, err := controller.NewTypedUnmanaged(w.options.Name, controller.TypedOptions[K]{
		Reconciler:              reconcile.TypedFunc[K](w.reconcile),
		MaxConcurrentReconciles: w.options.Count,
		SkipNameValidation:      ptr.To(true), // There is one controller of this name for each target.
		RateLimiter:             w.limiter,
		NewQueue:                func(string, workqueue.TypedRateLimiter[K]) Queue[K] { return w.Queue },
		LogConstructor:          w.logger,
	})
	if err != nil {
		return fmt.Errorf("making the workers %q: %w", w.options.Name, err)
	}
	go func() {
		if err := c.Start(ctx); err != nil {
			w.options.Logger.Error(err, "Workers have ended", "workers", w.options.Name)
		}
	}()
	return nil
}

// reconcile does nothing once the workers are to end: a queue that is shut down still hands out its keys. Each would
// fail, with a line in the log.
func (w *Workers[K]) reconcile(ctx context.Context, key K) (reconcile.Result, error) {
	if ended(ctx) {
		return reconcile.Result{}, nil
	}
	result, err := w.options.Reconciler.Reconcile(ctx, key)
	if ended(ctx) {
		return reconcile.Result{}, nil
	}
	return result, err
}

func ended(ctx context.Context) bool { return ctx.Err() != nil }

func (w *Workers[K]) logger(key *K) logr.Logger {
	if key == nil {
		return w.options.Logger
	}
	return w.options.Logger.WithValues("object", fmt.Sprint(*key))
}
