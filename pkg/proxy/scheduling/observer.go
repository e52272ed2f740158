package scheduling

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

var (
	_ engage.LossObserver   = (*Scheduler)(nil)
	_ engage.PolicyObserver = (*Scheduler)(nil)
)

// Engaged starts to follow a target's PodChaperons and ClusterSummary, until ctx ends.
func (s *Scheduler) Engaged(ctx context.Context, engaged *engage.Target) error {
	t := newTarget(ctx, engaged, s.plugin.placer.source.ClusterID, s.clock)
	context.AfterFunc(ctx, func() {
		s.plugin.targets.remove(t)
		s.plugin.placements.forgetTarget(t)
		s.wakePods(t) // what it held may go elsewhere
	})
	s.plugin.exclusions.lift(t.NodeName)
	if err := handle(ctx, t, &v1alpha1.PodChaperon{}, s.chaperonSeen, s.chaperonGone); err != nil {
		return err
	}
	if err := handle(ctx, t, &v1alpha1.ClusterSummary{}, s.summarySeen, s.summaryGone); err != nil {
		return err
	}
	s.plugin.targets.add(t)
	if err := ctx.Err(); err != nil { // The function above may have run before.
		s.plugin.targets.remove(t)
		return fmt.Errorf("following the target: %w", err)
	}
	select {
	case s.engaged <- struct{}{}:
	default:
	}
	s.wakePods(t)
	return nil
}

// Lost wakes the pods that the target no longer holds, and those that wait for it.
func (s *Scheduler) Lost(engaged *engage.Target) {
	s.plugin.placements.notifyTarget(engaged)
	if t := s.plugin.targets.get(engaged.NodeName); t != nil && t.Target == engaged {
		s.wakePods(t)
	}
}

// PolicyChanged wakes the pods that the target may take now, and those that wait for it as long as its policy says.
func (s *Scheduler) PolicyChanged(engaged *engage.Target) { s.Lost(engaged) }

func (s *Scheduler) chaperonSeen(t *target, chaperon *v1alpha1.PodChaperon) {
	proxy := proxyUID(chaperon)
	switch {
	case finished(chaperon): // It may never have been counted.
		if t.ledger.Remove(proxy) {
			s.wakeSoon(t)
		}
	case isScheduled(chaperon):
		t.ledger.Scheduled(proxy)
	}
	s.plugin.placements.set(t, chaperon)
}

func (s *Scheduler) chaperonGone(t *target, chaperon *v1alpha1.PodChaperon) {
	proxy := proxyUID(chaperon)
	held := s.plugin.placements.remove(t, chaperon)
	if s.plugin.placements.in(t, proxy) == nil && t.ledger.Remove(proxy) {
		s.wakeSoon(t)
	}
	if held {
		parent := types.NamespacedName{
			Namespace: chaperon.Annotations[v1alpha1.AnnotationParentNamespace],
			Name:      chaperon.Annotations[v1alpha1.AnnotationParentName],
		}
		s.wakePod(parent, proxy)
	}
}

func (s *Scheduler) summarySeen(t *target, summary *v1alpha1.ClusterSummary) {
	if summary.Name == v1alpha1.ClusterSummaryName && t.ledger.Update(summary) {
		s.plugin.exclusions.moreRoom(t.NodeName)
		s.wakePods(t)
	}
}

func (s *Scheduler) summaryGone(t *target, summary *v1alpha1.ClusterSummary) {
	if summary.Name == v1alpha1.ClusterSummaryName {
		t.ledger.Update(nil)
	}
}

// handle calls seen and gone for the objects of a kind in the target's cache until ctx ends, and returns when those
// that were there have been seen.
func handle[T client.Object](ctx context.Context, t *target, kind T, seen, gone func(*target, T)) error {
	informer, err := t.Cache.GetInformer(ctx, kind)
	if err != nil {
		return fmt.Errorf("getting the informer of %T: %w", kind, err)
	}
	call := func(object any, f func(*target, T)) {
		if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
			object = tombstone.Obj
		}
		if typed, ok := object.(T); ok && !t.gone() {
			f(t, typed)
		}
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { call(object, seen) },
		UpdateFunc: func(_, object any) { call(object, seen) },
		DeleteFunc: func(object any) { call(object, gone) },
	})
	if err != nil {
		return fmt.Errorf("handling events of %T: %w", kind, err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(registration) })
	if !toolscache.WaitFor(ctx, "", registration.HasSyncedChecker()) {
		return fmt.Errorf("handling events of %T: %w", kind, context.Cause(ctx))
	}
	return nil
}
