package placement

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// ensureChaperon returns the proxy's PodChaperon in the target: one that was found, or a new one. There is no new one
// while an earlier delegate may run in another target.
func (p *Placer) ensureChaperon(
	ctx context.Context, proxy *corev1.Pod, t *Target, engaged []*Target,
) (*v1alpha1.PodChaperon, error) {
	if found := p.Delegates.in(t, proxy.UID); found != nil {
		return found, nil
	}
	if p.Delegates.isUncertain(proxy.UID, t) {
		if found, err := p.afterDoubt(ctx, proxy, t); found != nil || err != nil {
			return found, err
		}
	}
	p.find(ctx, proxy, engaged)
	if err := p.leftoversEnded(ctx, proxy, t); err != nil {
		return nil, err
	}
	proved, err := p.sign(proof.ClaimOf(proxy, t.Key))
	if err != nil {
		return nil, &CreateError{Target: t.Name(), Cause: err}
	}
	to := translate.Destination{
		Target: t.Key, Proof: proved, Fence: t.fence(proxy), KeepLabels: ptr.Deref(t.Policy().KeepLabels, p.keepLabels),
		Annotations: p.annotations,
	}
	chaperon, err := translate.Chaperon(proxy, p.source, to)
	if err != nil {
		return nil, fmt.Errorf("making a delegate of the pod: %w", err)
	}
	if err := p.ensureNeeds(ctx, proxy, t); err != nil {
		return nil, err
	}
	return p.create(ctx, proxy, t, chaperon)
}

// create creates a PodChaperon. It begins nothing in a target that is disengaged: if the (Cluster)Target was deleted,
// nobody would end the delegate.
func (p *Placer) create(
	ctx context.Context, proxy *corev1.Pod, t *Target, chaperon *v1alpha1.PodChaperon,
) (*v1alpha1.PodChaperon, error) {
	disconnected := fmt.Errorf("placing the delegate in %s: %w", t.Name(), errDisconnected)
	asked, err := p.request(ctx, proxy, t, chaperon)
	switch {
	case !asked && errors.Is(err, errDisconnected):
		return nil, disconnected
	case !asked:
		return nil, err
	case err == nil:
		p.Delegates.noteUnseen(t, chaperon)
		log.FromContext(ctx).V(1).Info("Placed the delegate",
			"target", t.Key, "delegate", client.ObjectKeyFromObject(chaperon))
		return chaperon, nil
	case ctx.Err() != nil:
		p.Delegates.doubt(proxy.UID, t, false)
		return nil, context.Cause(ctx)
	case t.Gone():
		p.Delegates.doubt(proxy.UID, t, wasNotCreated(err)) // It may be engaged anew already.
		return nil, disconnected
	}
	return p.afterFailure(ctx, proxy, t, chaperon, err)
}

// request sends the request to create a PodChaperon when its turn comes, unless something has happened meanwhile.
func (p *Placer) request(
	ctx context.Context, proxy *corev1.Pod, t *Target, chaperon *v1alpha1.PodChaperon,
) (asked bool, err error) {
	done, err := p.turn(ctx, proxy, t)
	if err != nil {
		return false, err
	}
	defer done()
	switch {
	case t.Gone():
		return false, errDisconnected
	case p.Delegates.isOver(proxy.UID):
		return false, &ConcludedError{}
	}
	if other, known := p.Delegates.elsewhere(proxy.UID, t); other != nil && Scheduled(known) {
		return false, elsewhere(t, other)
	}
	if err := p.leftoversEnded(ctx, proxy, t); err != nil {
		return false, err
	}
	p.Delegates.ask(proxy.UID, t)
	return true, timeouts.Within(ctx, func(ctx context.Context) error {
		return t.Client.Create(ctx, chaperon, client.FieldOwner(v1alpha1.FieldOwner))
	})
}

// elsewhere is the refusal of a target because another one runs the pod.
func elsewhere(t, other *Target) *RefusedError {
	return &RefusedError{
		Target:  t.Name(),
		Reason:  "the pod's delegate is scheduled in " + other.Name(),
		Refusal: ScheduledElsewhere,
	}
}

// turn returns when few enough PodChaperons are being created in the target. The caller must call done after its own
// request. The target may have been disengaged meanwhile, and the proxy may have gone.
func (p *Placer) turn(ctx context.Context, proxy *corev1.Pod, t *Target) (done func(), err error) {
	done = func() { <-t.turns }
	select {
	case t.turns <- struct{}{}:
		return done, nil
	default:
	}
	timer := p.clock.NewTimer(timeouts.CreationTurn)
	defer timer.Stop()
	for {
		select {
		case t.turns <- struct{}{}:
			if t.Reachable() {
				return done, nil
			}
			done() // The next one in the queue does not wait for anything either.
			return nil, &CreateError{Target: t.Name(), Cause: errors.New("the target is out of reach")}
		case <-p.Delegates.newsOf(proxy.UID):
			if p.Delegates.isOver(proxy.UID) {
				return nil, &ConcludedError{} // The next pod of this name waits for the end of this attempt.
			}
		case <-timer.C():
			return nil, &RefusedError{Target: t.Name(), Refusal: NoTurn, Reason: fmt.Sprintf(
				"no turn within %s: PodChaperons of other pods are still being created there, %d at a time",
				timeouts.CreationTurn, creationsAtOnce)}
		case <-t.engagement.Done():
			return nil, errDisconnected
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ensureNeeds makes what the proxy needs exist in the target, before its delegate does.
func (p *Placer) ensureNeeds(ctx context.Context, proxy *corev1.Pod, t *Target) error {
	ctx, end := t.whileEngaged(ctx)
	defer end()
	err := p.ensure(ctx, proxy, t.Target)
	var refused *needs.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &RefusedError{Target: t.Name(), Reason: refused.Error(), Refusal: refusalFor(refused.Class)}
	case errors.As(err, new(*needs.MissingError)):
		return err
	default:
		return fmt.Errorf("bringing what the pod needs to %s: %w", t.Name(), err)
	}
}

// afterFailure returns what the error of creating a PodChaperon means. A server that is busy, or that does not accept
// the credentials at the moment, has not refused the pod: the pod is scheduled again after the scheduler's back-off.
func (p *Placer) afterFailure(
	ctx context.Context,
	proxy *corev1.Pod,
	t *Target,
	chaperon *v1alpha1.PodChaperon,
	err error,
) (*v1alpha1.PodChaperon, error) {
	if wasNotCreated(err) {
		p.Delegates.noDoubt(proxy.UID, t)
		return nil, notCreated(t, err)
	}
	return p.adopt(ctx, proxy, t, chaperon, err)
}

// wasNotCreated says whether the error is the answer to a request that was surely not carried out.
func wasNotCreated(err error) bool {
	class := apierror.Of(err, apierror.Create)
	return apierror.NotStored(err) || class == apierror.Unavailable || class == apierror.Unauthorized || class.Refusal()
}

// notCreated returns what it means for the pod that the target has no PodChaperon, because of an error.
func notCreated(t *Target, err error) error {
	class := apierror.Of(err, apierror.Create)
	switch {
	case class == apierror.Unavailable || class == apierror.Unauthorized:
		return &CreateError{Target: t.Name(), Cause: err}
	case class.Refusal():
		return &RefusedError{Target: t.Name(), Reason: "refused: " + err.Error(), Refusal: refusalFor(class)}
	default:
		return &RefusedError{
			Target: t.Name(), Reason: "creating the PodChaperon: " + err.Error(), Refusal: CreateFailed,
		}
	}
}

// afterDoubt returns the PodChaperon that an earlier attempt left in the target, or may have left there. The result is
// nil if there is none, and a new one is to be created. A target that did not answer the last request is not asked
// again at once, so that the pod can go elsewhere.
func (p *Placer) afterDoubt(ctx context.Context, proxy *corev1.Pod, t *Target) (*v1alpha1.PodChaperon, error) {
	answered := p.Delegates.lastUnanswered(proxy.UID, t).IsZero()
	found, err := p.findUnseen(ctx, proxy, t)
	switch {
	case err != nil:
		return nil, &CreateError{Target: t.Name(), Cause: err}
	case found == nil && !answered:
		return nil, &RefusedError{
			Target:  t.Name(),
			Reason:  "creating the PodChaperon: the request was not answered, nor carried out",
			Refusal: CreateFailed,
		}
	}
	return found, nil
}

// adopt returns the PodChaperon that an earlier attempt created, or this one if it was created although its request was
// not answered well. A request that was not answered may still be carried out.
func (p *Placer) adopt(
	ctx context.Context,
	proxy *corev1.Pod,
	t *Target,
	chaperon *v1alpha1.PodChaperon,
	cause error,
) (*v1alpha1.PodChaperon, error) {
	answered := apierror.Of(cause, apierror.Create) != apierror.Unanswered
	p.Delegates.doubt(proxy.UID, t, answered)
	found, err := live(ctx, t, chaperon)
	forged := errors.As(err, new(*gate.ForgedError))
	switch {
	case client.IgnoreNotFound(err) != nil && !forged:
		return nil, &CreateError{
			Target: t.Name(), Cause: fmt.Errorf("%w, and looking whether it is there: %w", cause, err),
		}
	case (err != nil || ProxyUID(found) != proxy.UID) && !answered:
		return nil, &CreateError{Target: t.Name(), Cause: fmt.Errorf("it may still be created: %w", cause)}
	}
	p.Delegates.noDoubt(proxy.UID, t)
	refused := func(refusal Refusal, reason string) error {
		return &RefusedError{Target: t.Name(), Reason: reason, Refusal: refusal}
	}
	switch {
	case forged:
		return nil, refused(Forbidden, err.Error())
	case err != nil:
		return nil, notCreated(t, cause)
	case ProxyUID(found) != proxy.UID:
		return nil, refused(Forbidden, fmt.Sprintf("the PodChaperon %q there belongs to another pod", found.Name))
	case ending.Begun(found):
		p.Delegates.noteUnseen(t, found)
		return nil, refused(StillEnding, "an earlier delegate of the pod is still being deleted there")
	}
	return found, nil
}
