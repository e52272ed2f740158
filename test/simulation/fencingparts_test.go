package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/fence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/presence"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

var managerKey = types.NamespacedName{Namespace: namespace, Name: v1alpha1.LeaseManager}

// guard is the target's manager.
type guard struct {
	*process

	siege     *siege
	observer  fence.Observer
	chaperons *lagging
	queue     *queue
	// woke is when it last went on, after it had been frozen for as long as slept.
	woke  time.Time
	slept time.Duration
}

// newGuard starts the manager of the target.
func (s *siege) newGuard() *guard {
	s.guards++
	p := s.newProcess(fmt.Sprintf("the target's manager no. %d", s.guards), s.target)
	g := &guard{process: p, siege: s}
	g.chaperons = p.cache("cache of PodChaperons", view{s.target, kindChaperon, 0}, everything)
	pods := p.cache("cache of pods", view{s.target, kindPod, 0}, everything)
	l := &link{process: p, to: s.target, caches: caches{kindChaperon: g.chaperons, kindPod: pods}}
	reconciler := chaperon.New(l, live{link: l}, s.target.clock(), silent{}, "")
	reconciler.FenceBy(g.silence)
	g.queue = newQueue(p, p.name, reconciler)
	onEvents(g.chaperons, func(c *v1alpha1.PodChaperon) { g.enqueue(c.Name) })
	onEvents(pods, func(pod *corev1.Pod) {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			g.enqueue(owner.Name)
		}
	})
	onEvents(p.cache("cache of Leases", view{s.target, kindLease, 0}, everything), g.see)
	renewals := &presence.Presence{
		Leases: leases{link: l}, Holder: p.name, Fences: true, Clock: s.target.clock(), Logger: logr.Discard(),
	}
	s.start(p.name, func() { _ = renewals.Start(p.ctx) })
	return g
}

func (g *guard) enqueue(name string) {
	g.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
}

// see is what package fence does around its Observer.
func (g *guard) see(lease *coordinationv1.Lease) {
	now := g.siege.target.clock().Now()
	if lease.Name != v1alpha1.LeaseManager {
		g.observer.See(lease, now)
		return
	}
	g.observer.SeeOwn(lease, now)
	silent, _ := g.observer.Silent(sourceID, anyLease)
	for _, o := range sorted(g.chaperons.objects) {
		if c, ok := o.(*v1alpha1.PodChaperon); ok && chaperon.ToBeFenced(c, silent) {
			g.enqueue(c.Name)
		}
	}
}

// anyLease says that the user of a Lease may have the PodChaperons. There is one user.
func anyLease(string) bool { return true }

func (g *guard) silence(_ context.Context, chaperon *v1alpha1.PodChaperon) (time.Duration, bool, error) {
	silent, known := g.observer.Silent(sourceID, anyLease)
	g.siege.decided(chaperon, silent)
	return silent, known, nil
}

// leases reads and writes the Lease of the target's manager.
type leases struct {
	coordination.LeaseInterface

	link *link
}

// Get reads a Lease.
func (l leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if err := (leaseClient{l.link}).Get(ctx, client.ObjectKeyFromObject(lease), lease); err != nil {
		return nil, err
	}
	return lease.DeepCopy(), nil
}

// Update writes a Lease.
func (l leases) Update(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions,
) (*coordinationv1.Lease, error) {
	return lease, leaseClient{l.link}.Update(ctx, lease)
}

// Create makes a Lease.
func (l leases) Create(
	ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions,
) (*coordinationv1.Lease, error) {
	lease.Namespace = namespace
	return lease, l.link.Create(ctx, lease)
}

// lookAfterTarget starts what the source's leader does for a target that may be lost.
func (s *siege) lookAfterTarget() {
	h := s.sources[0]
	p, leads := h.leader, h.leads
	p.of = s.source
	pods := p.cache("cache of pods", view{s.source, kindPod, 0}, everything)
	targets := p.cache("cache of ClusterTargets", view{s.source, kindTarget, 0}, everything)
	l := &link{process: p, to: s.source, caches: caches{kindPod: pods, kindTarget: targets}}
	back := feedback.New(feedback.Options{
		Client: l, Proxies: podcache.NewByNode(l, nil), APIReader: live{link: l},
		Source: translate.Source{ClusterID: sourceID}, Keys: func() (*proof.Keys, error) { return keys, nil },
		LastRenewal: func(types.NamespacedName, string) time.Time { return leads.LastSent(leaseKey, "") },
		Clock:       clock.RealClock{}, Recorder: silent{}, Logger: logr.Discard(),
	})
	s.lost = newQueue(p, p.name+" for lost targets", reconcile.Func(back.ReconcileLost))
	q := s.lost
	onEvents(targets, func(*v1alpha1.ClusterTarget) { q.Add(reconcile.Request{NamespacedName: siegedKey}) })
	s.start(p.name+" looks", func() { s.look(h, p, l) })
}

// look is what package connect/target does: it looks at the Lease of the target's manager, and writes what it knows of
// the target.
func (s *siege) look(h *holder, p *process, source *link) {
	const missesOfLost = 3
	var seen awake.Observer
	misses := 0
	to := leaseClient{&link{process: p, to: s.target}}
	for p.alive() {
		lease := &coordinationv1.Lease{}
		ctx, cancel := context.WithTimeout(p.ctx, timeouts.Health/2)
		err := to.Get(ctx, managerKey, lease)
		cancel()
		if err == nil {
			misses = 0
			seen.Look(lease, time.Now())
		} else {
			misses++
			seen.Miss(time.Now())
		}
		if misses == 0 && h.holds() {
			s.report(p, source, v1alpha1.ReasonConnected, &seen)
		} else if misses >= missesOfLost {
			s.report(p, source, v1alpha1.ReasonUnreachable, &seen)
		}
		select {
		case <-time.After(timeouts.Health): // the bubble's time
		case <-p.ctx.Done():
		}
	}
}

// holds is acts for other goroutines.
func (h *holder) holds() bool {
	h.contest.mu.Lock()
	defer h.contest.mu.Unlock()
	return h.acts()
}

// report writes the status of the target. One that stops answering remains as it was.
func (s *siege) report(p *process, source *link, reason string, seen *awake.Observer) {
	state, fences := seen.State(), seen.Fences()
	ctx, cancel := context.WithTimeout(p.ctx, timeouts.Health/2)
	defer cancel()
	_, _ = source.do(ctx, "patch the status of", &v1alpha1.ClusterTarget{}, siegedKey, func() (client.Object, error) {
		s.show(reason, func(status *v1alpha1.TargetStatus) {
			if reason != v1alpha1.ReasonConnected {
				return
			}
			status.Fences = ptr.To(fences && state != awake.Silent)
			if state == awake.Awake || state == awake.Silent {
				meta.SetStatusCondition(&status.Conditions, awakeAs(state))
			}
		})
		return s.clusterTarget(), nil
	})
}

func awakeAs(state awake.State) metav1.Condition {
	if state == awake.Silent {
		return metav1.Condition{
			Type: v1alpha1.ConditionAwake, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSilent,
		}
	}
	return metav1.Condition{Type: v1alpha1.ConditionAwake, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAwake}
}
