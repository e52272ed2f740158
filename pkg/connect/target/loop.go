package target

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// loop is the goroutine of one target's connection. It alone engages and disengages the target, and may block on it.
type loop struct {
	connections *connections
	key         types.NamespacedName

	mu         sync.Mutex // guards what follows, up to of
	want       want
	interrupt  context.CancelFunc
	policy     *v1alpha1.PlacementPolicy
	finding    finding
	findingFor string // the fingerprint of the want that finding is about

	// newPolicy holds a token while policy may be newer than that of the engaged target.
	newPolicy chan struct{}
	// engaged is for run alone. It may be of an earlier want, until the present one is connected or fails.
	engaged *engagement
}

func newLoop(c *connections, target types.NamespacedName, w want, policy *v1alpha1.PlacementPolicy) *loop {
	return &loop{connections: c, key: target, want: w, policy: policy, newPolicy: make(chan struct{}, 1)}
}

// set replaces what is wanted, and interrupts what the loop does for the old want, if they differ.
func (l *loop) set(w want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.want.fingerprint == w.fingerprint {
		return
	}
	l.want = w
	if l.interrupt != nil {
		l.interrupt()
	}
}

// setPolicy has the policy reach the engaged target, now or with the next engagement. What the loop does is not
// interrupted for it.
func (l *loop) setPolicy(policy *v1alpha1.PlacementPolicy) {
	l.mu.Lock()
	l.policy = policy
	l.mu.Unlock()
	select {
	case l.newPolicy <- struct{}{}:
	default:
	}
}

// passPolicy gives a target, engaged or about to be, the newest policy.
func (l *loop) passPolicy(target *engage.Target) {
	l.mu.Lock()
	policy := l.policy
	l.mu.Unlock()
	l.connections.options.Registry.SetPolicy(target, policy)
}

func (l *loop) findingAbout(w want) finding {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.findingFor != w.fingerprint {
		return finding{}
	}
	return l.finding
}

// next returns what is wanted and a context that ends when that changes.
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
			l.leave(ctx)
			if l.connections.retire(l) {
				return
			}
		case w.failure != nil:
			l.disengage()
			l.report(ctx, w, finding{condition: *w.failure})
			<-ctx.Done()
		default:
			l.keep(ctx, life, w)
		}
	}
}

// keep connects, and connects anew where it must, until ctx ends. Engagements live in life.
func (l *loop) keep(ctx, life context.Context, w want) {
	backoff, misses := newBackoff(), 0
	for ctx.Err() == nil {
		engaged, err := l.engage(ctx, life, w)
		if err != nil {
			misses++
			// As for health checks: what an earlier leader found connected is not lost for one missed answer.
			if condition := failedCondition(err, w); condition.Reason != v1alpha1.ReasonUnreachable || misses >= maxMisses {
				l.failed(ctx, w, condition)
			}
			l.pause(ctx, backoff.Step())
			continue
		}
		l.disengage()
		l.engaged = engaged
		l.report(ctx, w, finding{condition: connectedTo(w, engaged.version), version: engaged.version})
		l.watch(ctx, w)
		backoff, misses = newBackoff(), 0
	}
}

// failed notes that the target could not be engaged. An engagement with the same credentials stays, unreachable.
func (l *loop) failed(ctx context.Context, w want, condition metav1.Condition) {
	if ctx.Err() != nil {
		return // It failed because something else is wanted now.
	}
	switch {
	case l.engaged == nil:
	case l.engaged.fingerprint == w.fingerprint:
		l.connections.options.Registry.Lose(l.engaged.target)
	default:
		l.disengage()
	}
	l.report(ctx, w, finding{condition: condition})
}

// watch checks the health of the engaged target until ctx ends or the target is to be engaged anew: because it is back
// after having been lost, or because its cache is stale for good.
func (l *loop) watch(ctx context.Context, w want) {
	ticker := l.connections.options.Clock.NewTicker(healthInterval)
	defer ticker.Stop()
	version := l.engaged.version
	var h health
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.newPolicy:
			l.passPolicy(l.engaged.target)
			continue
		case <-ticker.C():
		}
		summary, err := l.engaged.summary(ctx)
		if ctx.Err() != nil || err == nil && (h.lost() || l.engaged.denied()) {
			return
		}
		h = h.after(err, l.connections.options.Clock.Now())
		switch {
		case h.lost():
			l.connections.options.Registry.Lose(l.engaged.target)
			l.report(ctx, w, finding{condition: h.condition(err, w), version: version})
		case err == nil && summary.Status.KubernetesVersion != "" && summary.Status.KubernetesVersion != version:
			version = summary.Status.KubernetesVersion
			l.report(ctx, w, finding{condition: connectedTo(w, version), version: version})
		}
	}
}

// disengage ends the engagement, if there is one.
func (l *loop) disengage() {
	if l.engaged == nil {
		return
	}
	l.connections.options.Registry.Disengage(l.engaged.target)
	l.engaged.end()
	l.engaged = nil
}

// report keeps what was found out for the controller to write down, and logs what is news.
func (l *loop) report(ctx context.Context, w want, f finding) {
	l.mu.Lock()
	news := l.findingFor != w.fingerprint || l.finding != f
	was := l.finding.condition
	l.findingFor, l.finding = w.fingerprint, f
	l.mu.Unlock()
	if !news {
		return
	}
	if was.Reason != f.condition.Reason {
		log.FromContext(
			ctx,
		).Info(
			"The connection changed",
			"reason",
			f.condition.Reason,
			"message",
			f.condition.Message,
		)
	}
	l.connections.changed(l.key)
}

func (l *loop) pause(ctx context.Context, d time.Duration) {
	timer := l.connections.options.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}

func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 10, Cap: 30 * time.Second}
}

func connectedTo(w want, version string) metav1.Condition {
	return connected(
		metav1.ConditionTrue,
		v1alpha1.ReasonConnected,
		"connected to "+w.config.Host+", Kubernetes "+version,
	)
}
