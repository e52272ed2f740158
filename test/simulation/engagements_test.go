package simulation

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// engagement is an engaged target.
type engagement struct {
	*process

	target *placement.Target
	// next is the same target, engaged anew.
	next   *placement.Target
	cached *lagging
	end    context.CancelFunc
	// backs is how often the target had been set back when it was engaged, and listed when its cache listed.
	backs, listed int
}

// engage engages a target, perhaps anew. The cache of its API server lacks so many changes.
func (s *source) engage(k *kubernetes, ago int) {
	key := types.NamespacedName{Name: k.name}
	e := &engagement{process: s.process, backs: k.backs, listed: k.backs}
	ctx, end := context.WithCancel(s.ctx)
	e.end = end
	selects := func(o client.Object) bool {
		return o.GetLabels()[v1alpha1.LabelParentClusterID] == sourceID &&
			translate.MadeFor(o.GetLabels(), translate.TargetID(key))
	}
	g, of := newGate(key, s.link), lagged(k.cluster, kindChaperon, ago)
	cached := newLaggingBehind(newGated(ctx, g, of, selects), s.name+"'s cache of "+k.name, of)
	cached.ctx, e.cached = ctx, cached
	s.caches = append(s.caches, cached)
	all := caches{kindChaperon: cached}
	l := &link{process: s.process, to: k.cluster, caches: all, right: ctx}
	t := &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key),
		Client: g.Client(l, l), APIReader: g.Reader(live{link: l}), Cache: targetCache{caches: all}, Gate: g,
		Confirms: func(ctx context.Context) error { return l.confirm(ctx, k, e) },
		FindsPod: func(ctx context.Context, pod types.NamespacedName) (bool, error) {
			err := live{link: l}.Get(ctx, pod, &corev1.Pod{})
			return err == nil, client.IgnoreNotFound(err)
		},
	}
	t.SetSpares(len(s.world.trace)%8 > 0) // Otherwise its manager counts as one of an earlier version.
	if k == s.world.targets[len(s.world.targets)-1] {
		s.registry.SetPolicy(t, growing())
	}
	e.target = placement.NewTarget(ctx, t, sourceID, clock.RealClock{})
	before := s.engaged[k]
	s.engaged[k] = e
	q := newQueue(s.process, fmt.Sprintf("%s for %s", s.name, k.name), s.feedback.Reconciler(t))
	q.ctx, q.target = ctx, t
	d := s.placer.Delegates
	_ = engage.OnEvents(ctx, t, &v1alpha1.PodChaperon{},
		func(c *v1alpha1.PodChaperon) { d.Seen(e.target, c) },
		func(c *v1alpha1.PodChaperon) {
			if d.Gone(e.target, c) {
				s.wake(placement.ProxyUID(c))
			}
		})
	e.target.Since = time.Now()
	_ = s.feedback.Fill(ctx, t, q)
	context.AfterFunc(ctx, func() { d.ForgetTarget(e.target, e.next) })
	if before != nil {
		before.next = e.target
		before.end()
	}
}

// lapse notes that a target has not answered for a moment, so that the source may not act there.
func (s *source) lapse(k *kubernetes) {
	e := s.engaged[k]
	s.registry.Lapse(e.target.Target)
	s.placer.Delegates.NotifyTarget(e.target.Target)
}

// lose notes that a target does not answer.
func (s *source) lose(k *kubernetes) {
	if e := s.engaged[k]; e != nil && !e.target.Lost() {
		s.world.excuseUnbound(k, s.proxies)
		s.registry.Lose(e.target.Target)
		s.placer.Delegates.NotifyTarget(e.target.Target)
	}
}
