package target

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/awake"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/responsive"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// loop is the connection of one target. Its goroutine alone engages and disengages the target, and may wait for it.
type loop struct {
	options     Options
	connections *connections
	key         types.NamespacedName

	mu         sync.Mutex // guards the fields up to worked
	want       want
	interrupt  context.CancelFunc
	policy     *v1alpha1.PlacementPolicy
	finding    finding
	findingFor string // the fingerprint of the want that finding is about
	worked     string // the fingerprint of a want that was connected, and whose credentials were not refused since

	// newPolicy holds a token while policy may be newer than the engaged target's policy.
	newPolicy chan struct{}
	creations *creations
	shown     atomic.Int64 // the state of quality that was reported last

	// The goroutine alone uses the fields below.

	// engaged may belong to an earlier want, until the current one is connected or fails.
	engaged *engagement
	// known is the ID of the cluster that was connected last, or empty.
	known string
	// attempt is the last one to engage the target: that of engaged while engaged is watched.
	attempt attempt
	// penalty is the pause since the last account that was exceeded.
	penalty time.Duration
	epoch   knownEpoch
	// lacking is since when the target lacks a Lease that it had, or zero.
	lacking time.Time
	// awake is what was seen of the target's manager, whose Lease is in the namespace leasesIn.
	awake    awake.Observer
	leasesIn string
	// quality observes how the target answers.
	quality responsive.Observer
	silence silence
	// doubts is how many attempts to connect, or checks, have failed in a row.
	doubts int
	// wasConnected says whether Connected was True when it was reported last, by this leader or an earlier one.
	wasConnected bool
	// lastFine is when the target was connected, or a check passed, or the first attempt to connect began.
	lastFine time.Time
	// endpoint is that of the latest want.
	endpoint string
	comeback comeback
	// fencing is what was reported last.
	fencing fencing
}

// attempt is an attempt to engage a target.
type attempt struct {
	account *wire.Account
	// warned has the address that was dialled, if it is to be refused in future. Those who dial write it.
	warned *atomic.Pointer[wire.AddressError]
}

func newLoop(c *connections, target types.NamespacedName, w want, policy *v1alpha1.PlacementPolicy) *loop {
	return &loop{
		options:      c.options,
		connections:  c,
		key:          target,
		want:         w,
		policy:       policy,
		known:        w.known,
		wasConnected: w.wasConnected,
		creations:    newCreations(c.options.Clock),
		newPolicy:    make(chan struct{}, 1),
		attempt:      attempt{account: wire.NewAccount(wire.Default(), c.options.Clock)},
	}
}

// set replaces the want. If the new one differs, set interrupts the goroutine's work for the old one.
func (l *loop) set(w want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.want.fingerprint == w.fingerprint {
		return
	}
	if last := l.want; w.gone && last.config != nil && last.failure == nil {
		w.last = &last
	}
	l.want = w
	if l.interrupt != nil {
		l.interrupt()
	}
}

// setPolicy makes the goroutine pass the policy to the target, now or with the next engagement. It does not interrupt
// the goroutine's work.
func (l *loop) setPolicy(policy *v1alpha1.PlacementPolicy) {
	l.mu.Lock()
	l.policy = policy
	l.mu.Unlock()
	select {
	case l.newPolicy <- struct{}{}:
	default:
	}
}

// passPolicy passes the newest policy to a target that is engaged or is about to be.
func (l *loop) passPolicy(target *engage.Target) {
	l.mu.Lock()
	policy := l.policy
	l.mu.Unlock()
	l.options.Registry.SetPolicy(target, policy)
}

// repeat reports for the want what was reported last, with what is known of fencing by now.
func (l *loop) repeat(ctx context.Context, w want) {
	l.mu.Lock()
	last := l.finding
	l.mu.Unlock()
	l.report(ctx, w, last)
}

// findingAbout returns the finding about the want, or the zero finding if there is none yet.
func (l *loop) findingAbout(w want) finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.findingFor != w.fingerprint {
		return finding{}
	}
	found := l.finding
	found.responsive = responsiveCondition(l.quality.Decision(l.options.Clock.Now()), w)
	return found
}

// next returns the want, and a context that ends when the want changes.
func (l *loop) next(ctx context.Context) (context.Context, want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.interrupt != nil {
		l.interrupt()
	}
	ctx, l.interrupt = context.WithCancel(ctx)
	return ctx, l.want
}

func (l *loop) run(life context.Context) {
	life = log.IntoContext(life, log.FromContext(life).WithValues("target", targetkind.Name(l.key)))
	defer l.disengage()
	for life.Err() == nil {
		ctx, w := l.next(life)
		switch {
		case w.gone:
			l.leave(ctx, life, w.last)
			// The next one may be another cluster.
			l.known, l.fencing, l.awake, l.wasConnected = "", fencingUnknown, awake.Observer{}, false
			l.rest()
			if l.connections.retire(l) {
				return
			}
		case w.failure != nil:
			l.disengage()
			l.report(ctx, w, finding{condition: *w.failure})
			<-ctx.Done()
			l.rest()
		default:
			l.keep(ctx, life, w)
		}
	}
}

// keep connects to the target, and connects anew when necessary, until ctx ends. Engagements end with life.
func (l *loop) keep(ctx, life context.Context, w want) {
	backoff := newBackoff()
	l.doubts = 0
	l.begin(w)
	for ctx.Err() == nil {
		bounded, over, cancel := l.silence.bound(ctx, l.options.Clock.Now())
		engaged, err := l.engage(bounded, life, w)
		over()
		if err == nil {
			l.disengage()
			l.connected(ctx, w, engaged)
			l.watch(ctx, w)
			cancel()
			if over := l.attempt.account.Err(); over != nil {
				l.punish(ctx, w, over)
			}
			backoff, l.doubts = newBackoff(), 0
			continue
		}
		cancel()
		if l.lapse() {
			l.repeat(ctx, w) // The next leader reads that fencing is doubtful.
		}
		if over := l.attempt.account.Violation(); over != nil {
			l.punish(ctx, w, over)
			continue
		}
		l.doubts++
		condition := l.conditionOf(err, w)
		slow := condition.Reason == v1alpha1.ReasonUnreachable || condition.Reason == v1alpha1.ReasonAddressesUnknown
		if !slow || l.isLost() {
			l.failed(ctx, w, condition)
		}
		pause.For(ctx, l.options.Clock, l.nextPause(backoff))
	}
}

// connected reports a new engagement.
func (l *loop) connected(ctx context.Context, w want, engaged *engagement) {
	l.engaged = engaged
	l.lastFine = l.options.Clock.Now()
	l.learn()
	l.mu.Lock()
	l.worked = w.fingerprint
	l.mu.Unlock()
	condition := l.steady(engaged.condition(w, engaged.version, engaged.invalid))
	l.report(ctx, w, finding{condition: condition, version: engaged.version})
}

// learn notes which cluster the engaged target is.
func (l *loop) learn() {
	if !l.engaged.self {
		l.known = cmp.Or(l.engaged.identity.ClusterID(), l.known)
	}
}

// failed reports that the target could not be engaged. An earlier engagement with the same credentials stays, as lost,
// unless nothing there can be believed.
func (l *loop) failed(ctx context.Context, w want, condition metav1.Condition) {
	if ctx.Err() != nil {
		return // It failed because the want changed.
	}
	if condition.Reason == v1alpha1.ReasonUnreachable {
		l.lacking = time.Time{} // Nobody knows what it lacks meanwhile.
	}
	switch {
	case l.engaged == nil:
	case l.engaged.fingerprint == w.fingerprint && !v1alpha1.LeavesPodsUnknown(condition.Reason):
		l.options.Registry.Lose(l.engaged.target)
	default:
		l.disengage()
	}
	l.report(ctx, w, finding{condition: condition})
}

// watch checks the health of the engaged target until ctx ends or the target has to be engaged anew. This is so if a
// lost target answers again, or if the API server no longer lets the cache watch. It also returns when the target has
// cost more than it may. When another cluster answers, it ends the engagement at once.
func (l *loop) watch(ctx context.Context, w want) {
	ticker := l.options.Clock.NewTicker(healthInterval)
	defer ticker.Stop()
	looks := l.options.Clock.NewTicker(timeouts.PresenceDoubt)
	defer looks.Stop()
	version := l.engaged.version
	end := l.engaged.endOfHold()
	l.doubts = 0
	began := l.options.Clock.Now()
	h := health{answered: began}
	for l.await(ctx, w, ticker.C(), looks.C(), &end) {
		checked := l.options.Clock.Now()
		summary, invalid, err := l.checkAgain(ctx, h.within(checked))
		if l.engaged.identity.Other() != nil {
			l.disengage()
			return
		}
		if err == nil {
			l.lastFine = l.engaged.heard(checked)
		}
		if ctx.Err() != nil || err == nil && (h.lost || end.seen || l.engaged.denied()) {
			return
		}
		h = h.after(err, l.engaged.heard(checked), l.options.Clock.Now())
		l.doubts = h.misses
		if err == nil && l.options.Clock.Since(began) > 2*l.penalty {
			l.penalty = 0 // The target has kept its budget for long enough.
		}
		switch {
		case h.lost:
			l.options.Registry.Lose(l.engaged.target)
			l.report(ctx, w, finding{condition: h.condition(err, l.key, w), version: version})
		case err == nil:
			version = cmp.Or(summary.Status.KubernetesVersion, version)
			l.learn()
			condition := l.steady(l.engaged.condition(w, version, invalid))
			l.report(ctx, w, finding{condition: condition, version: version})
		}
	}
}

// await returns true when the next health check is due, and false when the target is not to be watched any more. When
// the hold ends, a check is due at once. If just one check has failed, the ticker brings the next one.
func (l *loop) await(ctx context.Context, w want, checks, looks <-chan time.Time, end *holdEnd) bool {
	for {
		select {
		case <-ctx.Done():
			return false
		case <-l.newPolicy:
			l.passPolicy(l.engaged.target)
		case <-l.attempt.account.Exceeded():
			return false
		case <-l.engaged.identity.Ended():
			l.disengage()
			return false
		case <-end.comes:
			end.comes, end.seen = nil, true
			if l.lapse() {
				// Even if the target does not answer any more, or another leader comes: it reads the status.
				l.report(ctx, w, l.findingAbout(w))
				return false
			}
			if l.doubts != 1 {
				return true
			}
		case <-looks:
			if l.look(ctx, w) {
				return false
			}
		case <-checks:
			return true
		}
	}
}

// disengage ends the engagement, if there is one.
func (l *loop) disengage() {
	if l.engaged == nil {
		return
	}
	l.options.Registry.Disengage(l.engaged.target)
	l.engaged.end()
	l.engaged = nil
}

// report stores the finding for the controller, and logs it if it is new.
func (l *loop) report(ctx context.Context, w want, f finding) {
	f.version = wire.Shorten(f.version, maxVersion)
	f.epoch, f.epochOf = l.epoch.is, l.epoch.of
	f.awake, f.awakeUnknown = awakeCondition(&l.awake, l.leasesIn), l.awake.State() == awake.Unknown
	f.responsive = metav1.Condition{} // It is added to the finding when this is read.
	f.clusterID = l.known
	l.fencing = l.fencing.after(f.condition.Reason, l.engaged)
	f.fencing = l.fencing
	l.wasConnected = f.condition.Status == metav1.ConditionTrue
	if refused := l.warnedAddress(); refused != nil && w.failure == nil {
		f.warned = *refused
	}
	f.labels = l.lostLabels()
	l.mu.Lock()
	news := l.findingFor != w.fingerprint || l.finding != f
	was := l.finding.condition
	l.findingFor, l.finding = w.fingerprint, f
	if f.condition.Reason == v1alpha1.ReasonUnauthorized {
		l.worked = ""
	}
	l.mu.Unlock()
	if !news {
		return
	}
	l.noteLoss(was.Reason, f.condition.Reason)
	if was.Reason != f.condition.Reason {
		log.FromContext(ctx).Info("The connection changed",
			"reason", f.condition.Reason, "message", f.condition.Message)
	}
	l.connections.changed(l.key)
}
