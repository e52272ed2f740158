package objects

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
)

const (
	name             = "follow"
	workersPerTarget = 5
	firstRetry       = 50 * time.Millisecond
	lastRetry        = 30 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[object]

// Engaged starts the target's workers, which stop with ctx, and has them write all that proxies on its node need.
func (f *Follower) Engaged(ctx context.Context, target *engage.Target) error {
	if err := f.observePods(); err != nil {
		return fmt.Errorf("observing proxies: %w", err)
	}
	if target.Itself {
		return nil // All is there already.
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[object](firstRetry, lastRetry)
	q := workqueue.NewTypedRateLimitingQueueWithConfig(
		limiter,
		workqueue.TypedRateLimitingQueueConfig[object]{Name: name},
	)
	l := &link{
		Follower: f,
		life:     ctx,
		target:   target,
		writer:   writer.NewWriter(target.Client, target.APIReader, f.Source),
		queue:    q,
		written:  map[object]record{},
	}
	log := f.Logger.WithValues("target", target.Key)
	c, err := controller.NewTypedUnmanaged(name, controller.TypedOptions[object]{
		Reconciler:              reconcile.TypedFunc[object](l.refresh),
		MaxConcurrentReconciles: workersPerTarget,
		SkipNameValidation:      ptr.To(true), // There is one for each target.
		RateLimiter:             limiter,
		NewQueue:                func(string, workqueue.TypedRateLimiter[object]) queue { return q },
		LogConstructor: func(o *object) logr.Logger {
			if o == nil {
				return log
			}
			return log.WithValues("object", o.String())
		},
	})
	if err != nil {
		return fmt.Errorf("making a controller: %w", err)
	}
	f.mu.Lock()
	f.links[target] = l
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.links, target)
	})
	go func() {
		if err := c.Start(ctx); err != nil {
			log.Error(err, "Following to a target ended")
		}
	}()
	l.rewriteAll()
	return nil
}
