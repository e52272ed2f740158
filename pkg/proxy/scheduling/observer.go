package scheduling

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

var (
	_ engage.LossObserver   = (*Scheduler)(nil)
	_ engage.PolicyObserver = (*Scheduler)(nil)
)

// Engaged starts to follow a target's PodChaperons and ClusterSummary, until ctx ends.
func (s *Scheduler) Engaged(ctx context.Context, engaged *engage.Target) error {
	t := &target{Target: placement.NewTarget(ctx, engaged, s.clusterID, s.clock)}
	context.AfterFunc(ctx, func() {
		s.plugin.targets.remove(t)
		s.plugin.placer.Delegates.ForgetTarget(t.Target, s.plugin.targets.placing(t.NodeName))
		s.plugin.waker.target(t) // Its pods may go elsewhere.
	})
	s.plugin.attempts.Lift(t.NodeName)
	if err := s.follow(ctx, t); err != nil {
		return err
	}
	t.Since = s.clock.Now()
	s.plugin.targets.add(t)
	s.plugin.elders.reached(ctx, engaged, func() { s.plugin.waker.target(t) })
	if err := ctx.Err(); err != nil { // The function above may have run before.
		s.plugin.targets.remove(t)
		return fmt.Errorf("following the target: %w", err)
	}
	select {
	case s.engaged <- struct{}{}:
	default:
	}
	s.plugin.waker.target(t)
	return nil
}

// follow returns when the target's PodChaperons and its ClusterSummary have been seen.
func (s *Scheduler) follow(ctx context.Context, t *target) error {
	err := engage.OnEvents(ctx, t.Target.Target, &v1alpha1.PodChaperon{},
		func(chaperon *v1alpha1.PodChaperon) { s.chaperonSeen(t, chaperon) },
		func(chaperon *v1alpha1.PodChaperon) { s.chaperonGone(t, chaperon) })
	if err != nil {
		return err
	}
	moreRoom := &paced{clock: s.clock, do: func() {
		if ctx.Err() == nil {
			s.plugin.attempts.MoreRoom(t.NodeName)
			s.plugin.waker.target(t)
		}
	}}
	return engage.OnEvents(ctx, t.Target.Target, &v1alpha1.ClusterSummary{},
		func(summary *v1alpha1.ClusterSummary) {
			if summary.Name == v1alpha1.ClusterSummaryName && t.Ledger.Update(summary) {
				moreRoom.ask()
			}
		},
		func(summary *v1alpha1.ClusterSummary) {
			if summary.Name == v1alpha1.ClusterSummaryName {
				t.Ledger.Update(nil)
			}
		})
}

// Lost wakes the pods that the target no longer holds, and those that wait for it.
func (s *Scheduler) Lost(engaged *engage.Target) {
	s.plugin.placer.Delegates.NotifyTarget(engaged)
	if t := s.plugin.targets.get(engaged.NodeName); t != nil && t.Target.Target == engaged {
		s.plugin.waker.target(t)
	}
}

// PolicyChanged wakes the pods that the target may take now, and those that wait for it as long as its policy says.
func (s *Scheduler) PolicyChanged(engaged *engage.Target) { s.Lost(engaged) }

// PlacedBeside returns another target that may have a delegate of a proxy on this node, although its cache shows none,
// or nil.
func (s *Scheduler) PlacedBeside(proxy types.UID, nodeName string) *engage.Target {
	if t := s.plugin.placer.Delegates.Beside(proxy, nodeName); t != nil {
		return t.Target
	}
	return nil
}

func (s *Scheduler) chaperonSeen(t *target, chaperon *v1alpha1.PodChaperon) {
	if gate.ParentOf(chaperon).Orphan {
		s.chaperonGone(t, chaperon) // Feedback ends it. It holds no pod.
		return
	}
	proxy, delegates := placement.ProxyUID(chaperon), s.plugin.placer.Delegates
	known := delegates.ScheduledIn(t.Target, proxy)
	switch {
	case placement.Finished(chaperon): // It may never have been counted.
		if t.Ledger.Remove(proxy) {
			s.plugin.waker.targetSoon(t)
		}
	case placement.Scheduled(chaperon):
		t.Ledger.Scheduled(proxy)
	}
	unattended := delegates.Seen(t.Target, chaperon)
	if unattended && !known && delegates.ScheduledIn(t.Target, proxy) {
		s.plugin.waker.pod(gate.ParentOf(chaperon).Key, proxy) // Perhaps a filter rejects the target: bindScheduled.
	}
}

func (s *Scheduler) chaperonGone(t *target, chaperon *v1alpha1.PodChaperon) {
	proxy := placement.ProxyUID(chaperon)
	delegates := s.plugin.placer.Delegates
	held := delegates.Gone(t.Target, chaperon)
	if !delegates.Has(t.Target, proxy) && t.Ledger.Remove(proxy) {
		s.plugin.waker.targetSoon(t)
	}
	key := gate.ParentOf(chaperon).Key
	if held {
		s.plugin.waker.pod(key, proxy)
	}
	s.plugin.wakeNext(key)
}
