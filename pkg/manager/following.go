package manager

import (
	"context"
	"fmt"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/garbagecollection"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// following adds the follower, which scheduling calls. The follower observes targets before scheduling does.
func (w *wiring) following(ctx context.Context, registry *engage.Registry) error {
	var err error
	w.follower, err = follow.New(follow.Options{
		Manager:  w.mgr,
		Source:   w.origin,
		Appeared: w.appeared,
		Clock:    w.clock,
	})
	if err != nil {
		return err
	}
	return w.follower.Register(ctx, registry)
}

// appeared notifies scheduling that an object appeared, which pods of the namespace may need. Scheduling is added after
// following.
func (w *wiring) appeared(namespace string, ref needs.Ref) {
	if w.scheduler != nil {
		w.scheduler.Appeared(namespace, ref)
	}
}

func (w *wiring) garbageCollection() error {
	remover, err := garbagecollection.New(garbagecollection.Options{
		Config:           w.mgr.GetConfig(),
		Cache:            w.mgr.GetCache(),
		Clock:            w.clock,
		SecretNamespaces: w.config.SecretNamespaces,
	})
	if err != nil {
		return fmt.Errorf("making the garbage collector of copies: %w", err)
	}
	return remover.Register(w.mgr)
}
