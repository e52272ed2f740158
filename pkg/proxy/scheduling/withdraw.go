package scheduling

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// withdraw deletes a PodChaperon as it was seen, because of a refusal. If it has changed, what it says now counts.
func (p *placer) withdraw(
	ctx context.Context, w *waiter, seen *v1alpha1.PodChaperon, refused *refusedError,
	still func(now *v1alpha1.PodChaperon) (*refusedError, time.Duration),
) error {
	t := w.target
	for range withdrawals {
		err := p.discard(ctx, t, seen)
		if err == nil {
			return p.awaitEnd(ctx, w, seen, refused)
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("withdrawing the delegate (%s) from %s: %w", refused.reason, t.name(), err)
		}
		now := &v1alpha1.PodChaperon{}
		err = within(
			ctx,
			func(ctx context.Context) error { return t.APIReader.Get(ctx, client.ObjectKeyFromObject(seen), now) },
		)
		if err != nil || now.UID != seen.UID {
			return fmt.Errorf(
				"withdrawing the delegate (%s) from %s, reading what has changed: %w",
				refused.reason,
				t.name(),
				err,
			)
		}
		if decision, _ := decide(now); decision == bind {
			return nil
		}
		changed, _ := still(now)
		if changed == nil {
			return fmt.Errorf("withdrawing the delegate (%s) from %s: it has changed", refused.reason, t.name())
		}
		seen, refused = now, changed
	}
	return fmt.Errorf("withdrawing the delegate (%s) from %s: it keeps changing", refused.reason, t.name())
}

// discard asks for the deletion of a PodChaperon as it was seen. Where it may have a delegate, which may have been
// scheduled just now, it is deleted in the foreground, so that it outlives the delegate.
func (p *placer) discard(ctx context.Context, t *target, seen *v1alpha1.PodChaperon) error {
	exactly := client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion}
	if !childless(seen) {
		return remove(ctx, t, seen, exactly, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	p.placements.setWithdrawn(proxyUID(seen), seen.UID, true)
	err := remove(ctx, t, seen, exactly, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		p.placements.setWithdrawn(proxyUID(seen), seen.UID, false)
	}
	return err
}

// awaitEnd returns the refusal when the PodChaperon that was discarded can have no delegate any more: at once if it had
// none. As everywhere, a target that is out of reach does not hold its pods: the wait for it ends with an error, within
// another time-out.
func (p *placer) awaitEnd(ctx context.Context, w *waiter, seen *v1alpha1.PodChaperon, refusal *refusedError) error {
	if childless(seen) {
		return refusal
	}
	timer := p.clock.NewTimer(p.timeout)
	defer timer.Stop()
	for {
		_, deleted := p.placements.look(w, seen)
		switch {
		case p.placements.proxyState(w) != proxyPending:
			return &concludedError{}
		case deleted:
			return refusal
		}
		select {
		case <-w.news:
		case <-timer.C():
			if !w.target.Reachable() {
				return fmt.Errorf(
					"withdrawing the delegate (%s) from %s: it is not reachable any more",
					refusal.reason,
					w.target.name(),
				)
			}
			if deletedUnseen(ctx, w.target, seen) {
				return refusal
			}
			log.FromContext(
				ctx,
			).Info(
				"Waiting until a withdrawn delegate has ended",
				"target",
				w.target.Key,
				"delegate",
				client.ObjectKeyFromObject(seen),
			)
			timer.Reset(p.timeout)
		case <-w.target.disengaged:
			return fmt.Errorf(
				"withdrawing the delegate (%s) from %s: it was disconnected",
				refusal.reason,
				w.target.name(),
			)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deletedUnseen asks the API server: a cache that never showed the PodChaperon does not tell that it is gone either.
func deletedUnseen(ctx context.Context, t *target, seen *v1alpha1.PodChaperon) bool {
	now := &v1alpha1.PodChaperon{}
	err := within(
		ctx,
		func(ctx context.Context) error { return t.APIReader.Get(ctx, client.ObjectKeyFromObject(seen), now) },
	)
	return apierrors.IsNotFound(err) || err == nil && now.UID != seen.UID
}

// abandon deletes the PodChaperon of a proxy that is gone, and leaves its delegate to the target's garbage collector.
// If that fails, feedback will.
func (p *placer) abandon(ctx context.Context, t *target, seen *v1alpha1.PodChaperon) error {
	err := remove(
		ctx,
		t,
		seen,
		client.Preconditions{UID: &seen.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground),
	)
	if err != nil {
		log.FromContext(
			ctx,
		).Error(
			err,
			"Could not delete the PodChaperon of a deleted pod",
			"target",
			t.Key,
			"delegate",
			client.ObjectKeyFromObject(seen),
		)
	}
	return &concludedError{}
}

// remove returns nil once the PodChaperon is known to be gone, or to be going.
func remove(ctx context.Context, t *target, chaperon *v1alpha1.PodChaperon, options ...client.DeleteOption) error {
	name := &v1alpha1.PodChaperon{}
	name.Namespace, name.Name = chaperon.Namespace, chaperon.Name
	return within(ctx, func(ctx context.Context) error {
		return client.IgnoreNotFound(t.Client.Delete(ctx, name, options...))
	})
}
