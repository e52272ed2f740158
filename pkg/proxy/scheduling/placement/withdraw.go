package placement

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// withdrawals is how often we try to withdraw a PodChaperon that changes under our hands.
const withdrawals = 5

// withdraw gives a PodChaperon up as it was seen, because of a refusal, and returns the refusal once the delegate is
// gone. If the PodChaperon has changed, its new state counts: refusalOf returns the refusal that follows from it.
func (p *Placer) withdraw(
	ctx context.Context, w *waiter, seen *v1alpha1.PodChaperon, refused *RefusedError,
	refusalOf func(now *v1alpha1.PodChaperon) (*RefusedError, time.Duration),
) error {
	for range withdrawals {
		err := p.discard(ctx, w.target, seen)
		if err == nil {
			return p.awaitEnd(ctx, w, seen, refused)
		}
		failed := func(format string, values ...any) error {
			return withdrawing(refused, fmt.Errorf(format, values...))
		}
		if !apierrors.IsConflict(err) {
			return failed("%w", err)
		}
		now, err := live(ctx, w.target, seen)
		if err != nil {
			return failed("reading what has changed: %w", err)
		}
		if now.UID != seen.UID {
			return failed("another PodChaperon is in its place")
		}
		if said, _ := read(now); said == scheduled {
			return nil
		}
		changed, _ := refusalOf(now)
		if changed == nil {
			return failed("it has changed")
		}
		changed.roomier = refused.roomier
		seen, refused = now, changed
	}
	return withdrawing(refused, errors.New("it keeps changing"))
}

// withdrawing is the error of a withdrawal because of a refusal.
func withdrawing(refused *RefusedError, cause error) error {
	return fmt.Errorf("withdrawing the delegate (%s) from %s: %w", refused.Reason, refused.Target, cause)
}

// discard gives a PodChaperon up as it was seen. If the target's manager refused to create a delegate, and so never
// will, the PodChaperon is deleted. Otherwise the target's manager is asked to end the delegate unless it has a node by
// then: it may be under way.
func (p *Placer) discard(ctx context.Context, t *Target, seen *v1alpha1.PodChaperon) error {
	if !refusedThere(seen) {
		return timeouts.Within(ctx, func(ctx context.Context) error {
			return client.IgnoreNotFound(ending.Withdraw(ctx, t.Target, seen))
		})
	}
	p.Delegates.setWithdrawn(ProxyUID(seen), seen.UID, true)
	exactly := client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}
	err := remove(ctx, t, seen, exactly, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		p.Delegates.setWithdrawn(ProxyUID(seen), seen.UID, false)
	}
	return err
}

// awaitEnd returns the refusal when the discarded PodChaperon can have no delegate any more: at once if it had none. It
// returns nil if the delegate got a node before. As everywhere, a target that is lost does not hold its pods. The wait
// for it ends with an error, within another time-out.
func (p *Placer) awaitEnd(ctx context.Context, w *waiter, seen *v1alpha1.PodChaperon, refusal *RefusedError) error {
	if refusedThere(seen) {
		return refusal
	}
	timer := p.clock.NewTimer(p.timeout)
	defer timer.Stop()
	for {
		now, deleted := p.Delegates.latest(w, seen)
		switch {
		case p.Delegates.proxyState(w) != proxyPending:
			return &ConcludedError{}
		case deleted:
			return refusal
		case spared(now):
			return nil
		}
		select {
		case <-w.news:
		case <-timer.C():
			if w.target.Lost() {
				return withdrawing(refusal, errors.New("it is lost"))
			}
			if err := p.lookAgain(ctx, w.target, seen, refusal); err != nil {
				return err
			}
			timer.Reset(p.timeout)
		case <-w.target.engagement.Done():
			return withdrawing(refusal, errDisconnected)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// lookAgain returns the outcome of a withdrawal if the API server has it: the cache may never show it. Otherwise it
// asks once more for the end, because the target's manager may be of another version by now, and returns nil.
func (p *Placer) lookAgain(
	ctx context.Context, t *Target, seen *v1alpha1.PodChaperon, refusal *RefusedError,
) error {
	now, gone, err := deletedUnseen(ctx, t, seen)
	if gone {
		return refusal
	}
	if err == nil {
		if said, _ := read(now); said == scheduled { // The next attempt finds it.
			return withdrawing(refusal, errors.New("it has got a node"))
		}
		err = p.discard(ctx, t, now)
	}
	logWait(ctx, t, seen, err)
	return nil
}

// logWait logs that a withdrawn delegate has not ended, or the error of asking for it.
func logWait(ctx context.Context, t *Target, seen *v1alpha1.PodChaperon, err error) {
	logger := log.FromContext(ctx).WithValues("target", t.Key, "delegate", client.ObjectKeyFromObject(seen))
	if err != nil {
		logger.Info("Cannot see whether a withdrawn delegate has ended", "error", err.Error())
		return
	}
	logger.Info("Waiting until a withdrawn delegate has ended")
}

// spared says whether a delegate that was withdrawn got a node before the target's manager ended it. States from before
// the withdrawal do not count.
func spared(now *v1alpha1.PodChaperon) bool {
	_, withdrawn := now.Annotations[v1alpha1.AnnotationWithdrawn]
	said, _ := read(now)
	return withdrawn && said == scheduled
}

// deletedUnseen asks the API server whether the PodChaperon is gone: a cache that never showed it does not report its
// deletion either. Without an error, it returns the PodChaperon that is there.
func deletedUnseen(
	ctx context.Context, t *Target, seen *v1alpha1.PodChaperon,
) (now *v1alpha1.PodChaperon, gone bool, err error) {
	now, err = live(ctx, t, seen)
	if apierrors.IsNotFound(err) {
		return now, true, nil
	}
	return now, err == nil && now.UID != seen.UID, err
}

// abandon asks for the end of the delegate of a proxy that is gone. If that fails, feedback asks.
func (p *Placer) abandon(ctx context.Context, t *Target, seen *v1alpha1.PodChaperon) error {
	err := timeouts.Within(ctx, func(ctx context.Context) error { return ending.Ask(ctx, t.Client, seen, "") })
	if client.IgnoreNotFound(err) != nil {
		log.FromContext(ctx).Error(err, "Could not ask for the end of the delegate of a deleted pod",
			"target", t.Key, "delegate", client.ObjectKeyFromObject(seen))
	}
	return &ConcludedError{}
}

// deleteLost deletes a PodChaperon that is gone from the cache, or is being deleted, and returns the error of the
// attempt. The cache also loses one whose labels somebody changed: no delegate runs beside that of the next attempt. If
// the target's manager was asked to end the delegate, the next attempt waits for that.
func deleteLost(ctx context.Context, t *Target, seen *v1alpha1.PodChaperon) error {
	if translate.ToEnd(seen) {
		return fmt.Errorf("placing the delegate in %s: the delegate is being withdrawn", t.Name())
	}
	err := remove(ctx, t, seen,
		client.Preconditions{UID: &seen.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if err != nil && !apierrors.IsConflict(err) { // Of another PodChaperon in its place, nothing is known.
		return fmt.Errorf("placing the delegate in %s: the PodChaperon was deleted, or somebody changed its labels, "+
			"and it cannot be deleted: %w", t.Name(), err)
	}
	return fmt.Errorf("placing the delegate in %s: the PodChaperon was deleted", t.Name())
}

// remove returns nil once the PodChaperon is known to be gone, or to be going.
func remove(ctx context.Context, t *Target, chaperon *v1alpha1.PodChaperon, options ...client.DeleteOption) error {
	name := &v1alpha1.PodChaperon{}
	name.Namespace, name.Name = chaperon.Namespace, chaperon.Name
	return timeouts.Within(ctx, func(ctx context.Context) error {
		return client.IgnoreNotFound(t.Client.Delete(ctx, name, options...))
	})
}
