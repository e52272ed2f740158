package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/copies"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/claims"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/services"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// bringTimeout is how long all that a pod needs may take. Together with what comes before and after it is far less than the two minutes after which
// targets remove what no pod came for.
const bringTimeout = 45 * time.Second

// follower is what scheduling asks to have things follow.
type follower struct {
	objects *follow.Follower
	claims  *claims.Claims
}

// Missing implements scheduling.Follower.
func (f *follower) Missing(pod *corev1.Pod) error { return f.objects.Missing(pod) }

// Objection implements scheduling.Follower.
func (f *follower) Objection(pod *corev1.Pod, target *engage.Target) string {
	return f.claims.Objection(pod, target)
}

// Bring implements scheduling.Follower. Claims come last: they bind a pod to the target.
func (f *follower) Bring(ctx context.Context, pod *corev1.Pod, target *engage.Target) error {
	ctx, cancel := context.WithTimeout(ctx, bringTimeout)
	defer cancel()
	if err := f.objects.Bring(ctx, pod, target); err != nil {
		return err
	}
	return f.claims.Bring(ctx, pod, target)
}

// following makes what scheduling asks, and observes targets before scheduling does.
func (w *wiring) following(ctx context.Context, registry *engage.Registry) error {
	objects, err := follow.New(follow.Options{
		Config:   w.mgr.GetConfig(),
		Source:   w.origin,
		Appeared: w.appeared,
		Clock:    w.clock,
		Recorder: w.mgr.GetEventRecorder("multicluster-follow"),
		Logger:   w.mgr.GetLogger().WithName("follow"),
	})
	if err != nil {
		return err
	}
	volumes, err := claims.New(claims.Options{
		Config:   w.mgr.GetConfig(),
		Scheme:   w.mgr.GetScheme(),
		Mapper:   w.mgr.GetRESTMapper(),
		Source:   w.origin,
		Appeared: func(namespace string) { w.appeared(namespace, needs.Ref{}) },
		Clock:    w.clock,
		Recorder: w.mgr.GetEventRecorder("multicluster-claims"),
		Logger:   w.mgr.GetLogger().WithName("claims"),
	})
	if err != nil {
		return err
	}
	w.follower = &follower{objects: objects, claims: volumes}
	registry.Observe(objects)
	objects.Register(ctx, w.mgr)
	registry.Observe(volumes)
	return errors.Join(volumes.Register(ctx, w.mgr), w.services(registry))
}

// services has Services and Ingresses follow.
func (w *wiring) services(registry *engage.Registry) error {
	s, err := services.New(services.Options{
		Client:      w.mgr.GetClient(),
		APIReader:   w.mgr.GetAPIReader(),
		Config:      w.mgr.GetConfig(),
		Mapper:      w.mgr.GetRESTMapper(),
		Source:      w.origin,
		HoldSecrets: w.holdSecrets,
		Clock:       w.clock,
		Recorder:    w.mgr.GetEventRecorder("multicluster-services"),
		Logger:      w.mgr.GetLogger().WithName("services"),
	})
	if err != nil {
		return err
	}
	registry.Observe(s)
	return w.mgr.Add(s)
}

func (w *wiring) holdSecrets(ctx context.Context, target *engage.Target, ingress types.NamespacedName, names []string) error {
	refs := make([]needs.Ref, len(names))
	for i, name := range names {
		refs[i] = needs.Ref{Resource: needs.Secrets, Name: name}
	}
	return w.follower.objects.Hold(ctx, target, ingress.Namespace, "ingress/"+ingress.Name, refs)
}

// appeared tells scheduling, which is made later, that pods of a namespace may go on that refer to an object, or have claims.
func (w *wiring) appeared(namespace string, ref needs.Ref) {
	if w.scheduler != nil {
		w.scheduler.Appeared(namespace, ref)
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
