package manager

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/copies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
)

// follower is what scheduling asks to have things follow.
type follower struct {
	objects *follow.Follower
}

// Missing implements scheduling.Follower.
func (f *follower) Missing(pod *corev1.Pod) error { return f.objects.Missing(pod) }

// Objection implements scheduling.Follower.
func (f *follower) Objection(*corev1.Pod, *engage.Target) string { return "" }

// Bring implements scheduling.Follower.
func (f *follower) Bring(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	return f.objects.Bring(ctx, pod, target)
}

// following makes what scheduling needs to have, and observes targets before scheduling does.
func (w *wiring) following(ctx context.Context, registry *engage.Registry) error {
	objects, err := follow.New(follow.Options{
		Config:   w.mgr.GetConfig(),
		Source:   w.origin,
		Appeared: w.appeared,
		Clock:    w.clock,
		Logger:   w.mgr.GetLogger().WithName("follow"),
	})
	if err != nil {
		return err
	}
	registry.Observe(objects)
	objects.Register(ctx, w.mgr)
	w.follower = &follower{objects: objects}
	return nil
}

// appeared tells scheduling, which is made later, that pods of a namespace may go on.
func (w *wiring) appeared(namespace string) {
	if w.scheduler != nil {
		w.scheduler.Appeared(namespace)
	}
}

func (w *wiring) copies() error {
	remover, err := copies.New(copies.Options{
		Config:           w.mgr.GetConfig(),
		Cache:            w.mgr.GetCache(),
		Clock:            w.clock,
		SecretNamespaces: w.config.SecretNamespaces,
	})
	if err != nil {
		return fmt.Errorf("making the remover of copies: %w", err)
	}
	return remover.Register(w.mgr)
}
