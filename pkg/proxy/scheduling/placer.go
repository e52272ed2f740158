package scheduling

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/bounds"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// requestTimeout is the deadline of each request.
	requestTimeout = bounds.Request
	// withdrawals is how often we try to delete a PodChaperon that changes under our hands.
	withdrawals = 5
)

// placer places delegates and waits for them.
type placer struct {
	source     translate.Source
	follower   Follower
	timeout    time.Duration
	clock      clock.Clock
	placements *placements
	exclusions *exclusions
	trials     *trials
	// waits is told what a target says while it keeps a pod waiting.
	waits func(pod *corev1.Pod, target, reason string)
}

// place returns nil when the target has scheduled the proxy's delegate. With a *refusedError, the target has no
// delegate and is left out for this pod for a while; with a *concludedError there is no pod to schedule any more. With
// any other error, the delegate may be there, and is found by the next attempt.
func (p *placer) place(ctx context.Context, proxy *corev1.Pod, t *target, k kind) error {
	w := p.placements.startWaiting(proxy.UID, t)
	defer p.placements.stopWaiting(proxy.UID, w)
	chaperon, err := p.ensure(ctx, proxy, t)
	if err == nil {
		p.placements.setUncertain(proxy.UID, t, false)
		err = p.await(ctx, w, proxy, chaperon, k)
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		p.exclusions.add(proxy, t.NodeName, refused.kind, refused.reason, t.ledger.Roomier() > refused.roomier)
	}
	if refused != nil || !t.Reachable() {
		p.trials.end(proxy.UID)
	}
	if state := p.placements.proxyState(w); state != proxyPending { // What was noted of it since would stay for ever.
		p.exclusions.forget(proxy.UID)
		p.trials.forget(proxy.UID)
		p.placements.forgetProxy(proxy.UID, state)
		return &concludedError{}
	}
	return err
}

// await the target's decision, as long as its policy says at the time, given what it is hoped to do for the pod.
func (p *placer) await(ctx context.Context, w *waiter, proxy *corev1.Pod, seen *v1alpha1.PodChaperon, k kind) error {
	t := w.target
	start := p.clock.Now()
	for {
		now, deleted := p.placements.look(w, seen)
		seen = now
		decision, reason := decide(seen)
		state := p.placements.proxyState(w)
		switch {
		case state == proxyGone:
			return p.abandon(ctx, t, seen)
		case state == proxyBound:
			return &concludedError{}
		case deleted || decision == lost:
			return fmt.Errorf("placing the delegate in %s: the PodChaperon was deleted", t.name())
		case decision == bind:
			return nil
		case !t.Reachable():
			return fmt.Errorf("placing the delegate in %s: it is not reachable any more", t.name())
		case seen.Status.NominatedNodeName != "":
			p.trials.disturb(proxyUID(seen), t.NodeName)
		}
		refuses := func(seen *v1alpha1.PodChaperon) (*refusedError, time.Duration) {
			return newPatience(t.Policy(), p.timeout, k).refusal(t, seen, p.clock.Since(start))
		}
		refused, left := refuses(seen)
		if refused == nil {
			refused = p.elsewhere(ctx, proxy.UID, t)
		}
		if refused != nil {
			refused.roomier = t.ledger.Roomier()
			return p.withdraw(ctx, w, seen, refused, refuses)
		}
		p.waits(proxy, t.name(), reason)
		if err := p.news(ctx, w, left); err != nil {
			return fmt.Errorf("placing the delegate in %s: %w", t.name(), err)
		}
	}
}

// elsewhere looks for another delegate of the proxy, in a target that was out of reach when this one was given the pod.
// If that one is scheduled, this target is to be given up; otherwise that one is discarded.
func (p *placer) elsewhere(ctx context.Context, proxy types.UID, t *target) *refusedError {
	other, chaperon := p.placements.elsewhere(proxy, t)
	switch {
	case other == nil:
		return nil
	case isScheduled(chaperon):
		return &refusedError{
			target: t.name(),
			reason: "the pod's delegate is scheduled in " + other.name(),
			kind:   elsewhere,
		}
	}
	if err := p.discard(ctx, other, chaperon); err != nil {
		log.FromContext(
			ctx,
		).Error(
			err,
			"Could not discard a delegate that is placed elsewhere by now",
			"target",
			other.Key,
		)
	}
	return nil
}

// news returns when there is some, or when time has passed. An error says that there will be none.
func (p *placer) news(ctx context.Context, w *waiter, d time.Duration) error {
	timer := p.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.news:
		return nil
	case <-timer.C():
		return nil
	case <-w.target.disengaged:
		return errors.New("it was disconnected")
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ensure that there is a PodChaperon: one that was found, or a new one.
func (p *placer) ensure(ctx context.Context, proxy *corev1.Pod, t *target) (*v1alpha1.PodChaperon, error) {
	if found := p.placements.in(t, proxy.UID); found != nil {
		return found, nil
	}
	chaperon, err := translate.Chaperon(proxy, p.source, t.Hash)
	if err != nil {
		return nil, fmt.Errorf("making a delegate of the pod: %w", err)
	}
	if err := p.ensureNeeds(ctx, proxy, t); err != nil {
		return nil, err
	}
	err = within(ctx, func(ctx context.Context) error {
		return t.Client.Create(ctx, chaperon, client.FieldOwner(v1alpha1.FieldOwner))
	})
	switch {
	case err == nil:
		log.FromContext(
			ctx,
		).V(
			1,
		).Info(
			"Placed the delegate",
			"target",
			t.Key,
			"delegate",
			client.ObjectKeyFromObject(chaperon),
		)
		return chaperon, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return p.afterFailure(ctx, proxy, t, chaperon, err)
}

// afterFailure returns what the error of creating a PodChaperon means. A server that is busy, or that does not accept
// the credentials at the moment, has not refused the pod: the pod is scheduled again after the scheduler's back-off.
func (p *placer) afterFailure(
	ctx context.Context,
	proxy *corev1.Pod,
	t *target,
	chaperon *v1alpha1.PodChaperon,
	err error,
) (*v1alpha1.PodChaperon, error) {
	class := apierror.Of(err, apierror.Create)
	switch {
	case class == apierror.Unavailable || class == apierror.Unauthorized:
		p.placements.setUncertain(proxy.UID, t, false)
		return nil, &createError{target: t.name(), cause: err}
	case class == apierror.RightsMissing:
		p.placements.setUncertain(proxy.UID, t, false)
		return nil, &refusedError{target: t.name(), reason: "refused: " + err.Error(), kind: rightsMissing}
	case class.Refusal():
		p.placements.setUncertain(proxy.UID, t, false)
		return nil, &refusedError{target: t.name(), reason: "refused: " + err.Error(), kind: forbidden}
	default:
		return p.adopt(ctx, proxy, t, chaperon, err)
	}
}

// adopt the PodChaperon that an earlier attempt created, or this one, whose request was not answered well.
func (p *placer) adopt(
	ctx context.Context,
	proxy *corev1.Pod,
	t *target,
	chaperon *v1alpha1.PodChaperon,
	cause error,
) (*v1alpha1.PodChaperon, error) {
	p.placements.setUncertain(proxy.UID, t, true)
	found := &v1alpha1.PodChaperon{}
	err := within(ctx, func(ctx context.Context) error {
		return t.APIReader.Get(ctx, client.ObjectKeyFromObject(chaperon), found)
	})
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf(
			"creating the PodChaperon in %s (%w), and looking whether it is there: %w",
			t.name(),
			cause,
			err,
		)
	}
	p.placements.setUncertain(proxy.UID, t, false)
	switch {
	case err != nil:
		return nil, &refusedError{
			target: t.name(),
			reason: "creating the PodChaperon: " + cause.Error(),
			kind:   createFailed,
		}
	case proxyUID(found) != proxy.UID:
		return nil, &refusedError{
			target: t.name(),
			reason: fmt.Sprintf("the PodChaperon %q there belongs to another pod", found.Name),
			kind:   forbidden,
		}
	case !found.DeletionTimestamp.IsZero():
		return nil, &refusedError{
			target: t.name(),
			reason: "an earlier delegate of the pod is still being deleted there",
			kind:   stillEnding,
		}
	}
	return found, nil
}

// within gives one request its deadline.
func within(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return request(ctx)
}
