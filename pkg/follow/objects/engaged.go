package objects

import (
	"context"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
)

const (
	workersName      = "follow"
	workersPerTarget = 5
	firstRetry       = 50 * time.Millisecond
	lastRetry        = 30 * time.Second
)

// Engaged starts the target's workers, which stop with ctx, and has them write everything that proxies on its node
// need.
func (f *Follower) Engaged(ctx context.Context, target *engage.Target) error {
	if err := f.observePods(); err != nil {
		return fmt.Errorf("observing proxies: %w", err)
	}
	if target.Itself {
		return nil // The source has the originals.
	}
	l := &link{
		follower: f,
		life:     ctx,
		target:   target,
		writer:   writer.NewWriter(target.Client, target.APIReader, f.options.Source),
		written:  map[objectKey]copyRecord{},
	}
	workers := engage.NewWorkers(engage.WorkersOptions[objectKey]{
		Name:       workersName,
		Reconciler: reconcile.TypedFunc[objectKey](l.refresh),
		Count:      workersPerTarget,
		FirstRetry: firstRetry,
		LastRetry:  lastRetry,
		Logger:     f.options.Logger.WithValues("target", target.Key),
	})
	l.queue = workers.Queue
	f.links.Set(ctx, target, l)
	if err := workers.Start(ctx); err != nil {
		return err
	}
	l.rewriteAll()
	return nil
}
