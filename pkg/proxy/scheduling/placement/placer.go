package placement

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Options of a Placer. None may be left out.
type Options struct {
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Sign proves to this source that it made a PodChaperon. It fails while there is no key; nothing is placed then.
	Sign func(claim proof.Claim) (string, error)
	// Timeout is how long a target may take to schedule a delegate, unless its policy says otherwise.
	Timeout time.Duration
	// KeepLabels gives delegates the labels of their pods under their own keys, too, unless a target's policy says
	// otherwise.
	KeepLabels bool
	// Annotations are those that proxies take over from their delegates.
	Annotations []string
	Clock       clock.Clock
	// Ensure makes what a pod needs exist in a target. It returns a *needs.RefusedError if the target does not take it,
	// and a *needs.MissingError if the source lacks it.
	Ensure func(ctx context.Context, proxy *corev1.Pod, target *engage.Target) error
}

// Placer places delegates and waits for targets' decisions. It is safe for concurrent use.
type Placer struct {
	// Delegates are those that are in targets' caches. Whoever watches the caches notes them there.
	Delegates *Delegates

	source     translate.Source
	sign       func(claim proof.Claim) (string, error)
	timeout    time.Duration
	keepLabels bool
	clock      clock.Clock
	ensure     func(ctx context.Context, proxy *corev1.Pod, target *engage.Target) error

	annotations []string
}

// New makes a Placer that knows no delegates.
func New(options Options) *Placer {
	return &Placer{
		Delegates:  newDelegates(options.Clock),
		source:     options.Source,
		sign:       options.Sign,
		timeout:    options.Timeout,
		keepLabels: options.KeepLabels,
		clock:      options.Clock,
		ensure:     options.Ensure,

		annotations: options.Annotations,
	}
}

// Expectation is what the caller knows of a placement beforehand, and wants to know while it lasts.
type Expectation struct {
	// Growth says that the target is expected to add a node for the pod, and has the time for that.
	Growth bool
	// Since is when the pod began to wait in the target, or zero if that is now.
	Since time.Time
	// Waiting is called with the target's reason, which may be empty, whenever the target keeps the pod waiting. It
	// must not be nil.
	Waiting func(wait Wait, reason string)
	// Engaged are all targets. Those that were engaged when the pod existed already may have a delegate of the pod that
	// has no PodChaperon any more.
	Engaged []*Target
}

// Place returns a nil error when the target has scheduled the proxy's delegate. A *RefusedError says that the target
// has no delegate that could still be scheduled, a *ConcludedError that there is no pod to schedule any more. A
// *LeftoverError says that the pod is to be placed later, anywhere. An *InvitedError says that another target may have
// room. After any other error, as after that one, the delegate may be in the target, and the next attempt finds it. The
// result preempts says that the target's scheduler evicts, or evicted, other pods for the delegate.
//
// If the pod is gone, Place waits until the target's cache shows the PodChaperon, as awaitShown says. Until then, only
// this wait says that the next pod of the name has a Predecessor.
func (p *Placer) Place(
	ctx context.Context, proxy *corev1.Pod, t *Target, expected Expectation,
) (preempts bool, err error) {
	w := p.Delegates.startWaiting(client.ObjectKeyFromObject(proxy), proxy.UID, t)
	defer p.Delegates.stopWaiting(proxy.UID, w)
	roomier := t.Ledger.Roomier()
	begun := p.clock.Now()
	chaperon, err := p.ensureChaperon(ctx, proxy, t, expected.Engaged)
	if !expected.Since.IsZero() { // The target's time does not pass before it is asked.
		expected.Since = expected.Since.Add(p.clock.Since(begun))
	}
	if err == nil {
		p.Delegates.noDoubt(proxy.UID, t)
		err = p.await(ctx, w, chaperon, expected)
	}
	var refused *RefusedError
	left := chaperon != nil && !errors.As(err, &refused)
	if left {
		p.Delegates.noteUnseen(t, chaperon)
	}
	if state := p.Delegates.proxyState(w); state != proxyPending {
		if left && state == ProxyGone {
			p.awaitShown(ctx, w, chaperon)
		}
		p.Delegates.Concluded(proxy.UID, state) // What was noted since would stay for ever.
		return w.preempts, &ConcludedError{}
	}
	if refused != nil {
		refused.MoreRoom = t.Ledger.Roomier() > max(roomier, refused.roomier)
	}
	return w.preempts, err
}

// await returns when the target has decided, or when its time has passed. Its policy at the time says how long it has.
func (p *Placer) await(ctx context.Context, w *waiter, seen *v1alpha1.PodChaperon, expected Expectation) error {
	t := w.target
	start := cmp.Or(expected.Since, p.clock.Now())
	refusalOf := func(seen *v1alpha1.PodChaperon) (*RefusedError, time.Duration) {
		return newPatience(t.Policy(), p.timeout, expected.Growth).refusal(t, seen, p.clock.Since(start))
	}
	for {
		now, deleted := p.Delegates.latest(w, seen)
		seen = now
		said, reason := read(seen)
		state := p.Delegates.proxyState(w)
		switch {
		case state == ProxyGone:
			return p.abandon(ctx, t, seen)
		case state == ProxyBound:
			return &ConcludedError{}
		case deleted || said == gone:
			return deleteLost(ctx, t, seen)
		case said == scheduled:
			return nil
		case t.Lost():
			return fmt.Errorf("placing the delegate in %s: it is lost", t.Name())
		case p.Delegates.invited(w) && waitOf(seen) != Undecided:
			return &InvitedError{Target: t.Name()}
		case seen.Status.NominatedNodeName != "":
			w.preempts = true
		}
		refused, left := refusalOf(seen)
		if refused == nil {
			refused = p.scheduledElsewhere(ctx, ProxyUID(seen), t)
		}
		if refused != nil {
			refused.roomier = t.Ledger.Roomier()
			return p.withdraw(ctx, w, seen, refused, refusalOf)
		}
		expected.Waiting(waitOf(seen), reason)
		if err := p.awaitNews(ctx, w, left); err != nil {
			return fmt.Errorf("placing the delegate in %s: %w", t.Name(), err)
		}
	}
}

// scheduledElsewhere looks for another delegate of the proxy, in a target that was out of reach when this one was given
// the pod. If the other delegate is scheduled, this target is to be given up. Otherwise the other one is discarded.
func (p *Placer) scheduledElsewhere(ctx context.Context, proxy types.UID, t *Target) *RefusedError {
	other, chaperon := p.Delegates.elsewhere(proxy, t)
	switch {
	case other == nil:
		return nil
	case Scheduled(chaperon):
		return elsewhere(t, other)
	}
	if err := p.discard(ctx, other, chaperon); err != nil {
		log.FromContext(ctx).Error(err, "Could not discard a delegate that is placed elsewhere by now",
			"target", other.Key)
	}
	return nil
}

// awaitNews returns nil when there is news or the time has passed, and an error if there will be none.
func (p *Placer) awaitNews(ctx context.Context, w *waiter, d time.Duration) error {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.news:
		return nil
	case <-timer.C():
		return nil
	case <-w.target.engagement.Done():
		return errDisconnected
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// live reads a PodChaperon from the target's API server, not from the cache. It is not found, too, if the target does
// not let this source read the namespace, and says that it has nothing there.
func live(ctx context.Context, t *Target, chaperon *v1alpha1.PodChaperon) (*v1alpha1.PodChaperon, error) {
	now := &v1alpha1.PodChaperon{}
	err := timeouts.Within(ctx, func(ctx context.Context) error {
		return t.APIReader.Get(ctx, client.ObjectKeyFromObject(chaperon), now)
	})
	if apierrors.IsForbidden(err) && t.ConfirmsNothingIn(ctx, chaperon.Namespace) {
		err = apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("podchaperons").GroupResource(), chaperon.Name)
	}
	return now, err
}
