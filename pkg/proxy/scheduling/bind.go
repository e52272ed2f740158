package scheduling

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Bind places the delegate, waits until its target has scheduled it, and binds the pod to the virtual node.
func (p *plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c, err := readCycle(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	t := p.targets.get(nodeName)
	if t == nil {
		return fwk.AsStatus(
			fmt.Errorf("placing the delegate: the target of node %q is not connected any more", nodeName),
		)
	}
	err = p.attempt(ctx, c, pod, t)
	if errors.As(err, new(*placement.RefusedError)) || invited(err) || notToBlame(err) {
		return fwk.NewStatus(fwk.Unschedulable).WithError(err)
	} else if err != nil {
		return fwk.AsStatus(err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	status := p.bindTo(ctx, state, pod, t.Target)
	if status.IsSuccess() {
		p.explanations.Bound(pod, nodeName)
	}
	return status
}

// bindTo binds the pod to the target's node. If the target is to fence the delegate, the binding also notes on the pod
// after which time. So this costs no request, and the next leader knows it, too.
func (p *plugin) bindTo(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, t *placement.Target) *fwk.Status {
	fence, problem, err := p.placer.Delegates.Fenced(t, pod)
	if err != nil {
		return fwk.AsStatus(err)
	}
	if problem == "" {
		problem, _ = translate.FenceProblem(pod, fence)
	}
	if problem != "" {
		p.handle.EventRecorder().Eventf(pod, nil, corev1.EventTypeWarning, v1alpha1.ReasonFencingDoesNotHold, "Binding",
			"%s: %s", t.Name(), problem)
	}
	if fence == 0 {
		return p.binder.Bind(ctx, state, pod, t.NodeName)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Annotations: map[string]string{v1alpha1.AnnotationFencedAfter: translate.FenceValue(fence)},
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: t.NodeName},
	}
	if err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fwk.AsStatus(fmt.Errorf("binding the pod: %w", err))
	}
	return nil
}

// attempt places the delegate, reports the outcome, and remembers a failure. The delegate leaves another target before.
func (p *plugin) attempt(ctx context.Context, c *cycle, pod *corev1.Pod, t *target) error {
	if c.holder != nil && c.holder != t.Target {
		if err := p.vacate(ctx, c, pod, t); err != nil {
			return err
		}
	}
	prospect := c.accepted
	if c.holder == t.Target && canGrow(c.Demand, t, t.Ledger.Room()) {
		prospect = attempts.Grow // A new leader does not know what the last one expected of the target.
	}
	remembered := p.attempts.StayIn(pod, t.NodeName)
	stay := p.newStay(pod, t, remembered)
	defer p.stays.end(stay)
	if remembered.Looks == 0 {
		p.explanations.Started(pod, t.Name(), prospect.String())
	}
	preempts, err := p.placer.Place(ctx, pod, t.Target, placement.Expectation{
		Growth: prospect == attempts.Grow,
		Since:  remembered.Since,
		Waiting: func(wait placement.Wait, reason string) {
			p.explanations.Waits(pod, t.Name(), reason)
			p.waits(stay, wait)
		},
		Engaged: p.targets.all(),
	})
	if invited(err) {
		c.stays = true
		p.attempts.Invited(pod.UID)
		return err
	}
	p.reportOutcome(pod, t, remembered.Since, err)
	if c.claims && errors.As(err, new(*placement.RefusedError)) {
		p.follower.Refused(pod, t.Target.Target)
	}
	if err != nil {
		p.attempts.Failed(pod, failureOf(err, t, preempts))
		p.wakeNext(client.ObjectKeyFromObject(pod))
	}
	return err
}

// reportOutcome reports what came of an attempt that began then.
func (p *plugin) reportOutcome(pod *corev1.Pod, t *target, began time.Time, err error) {
	if errors.As(err, new(*placement.ConcludedError)) || notToBlame(err) {
		p.explanations.Dropped(pod, t.Name()) // The target has not answered.
		return
	}
	outcome, reason := outcomeOf(err)
	p.explanations.Ended(pod, t.Name(), outcome, reason)
	p.metrics.placed(t.Name(), outcome, p.clock.Since(began))
}

// notToBlame says whether a pod was not placed for a reason that has nothing to do with the target.
func notToBlame(err error) bool {
	return errors.As(err, new(*needs.MissingError)) || errors.As(err, new(*placement.LeftoverError))
}

// bindScheduled binds a pod whose delegate has a node, although the virtual node does not pass the filters: it was
// cordoned or filled, or its target's manager fell silent, while no leader was there to bind the pod. The delegate
// runs, as that of a bound pod would. The result done is false if the pod has no such delegate.
func (p *plugin) bindScheduled(ctx context.Context, pod *corev1.Pod) (done bool, err error) {
	holder := p.placer.Delegates.Holder(pod.UID)
	if holder == nil || !p.placer.Delegates.ScheduledIn(holder, pod.UID) || !p.admitted(pod).IsSuccess() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if status := p.bindTo(ctx, framework.NewCycleState(), pod, holder); !status.IsSuccess() {
		return false, fmt.Errorf("binding the pod to the target that runs it: %w", status.AsError())
	}
	p.explanations.Bound(pod, holder.NodeName)
	return true, nil
}

// consequencesOf returns what follows from a refusal: the outcome for people and programs, and when the target may be
// given that pod again.
func consequencesOf(refusal placement.Refusal) (diagnosis.Outcome, attempts.BackOff) {
	switch refusal {
	case placement.Unschedulable:
		return diagnosis.Refused, attempts.UntilMoreRoom
	case placement.Forbidden:
		return diagnosis.Refused, attempts.FixedTime
	case placement.QuotaFull:
		return diagnosis.Refused, attempts.TimeOrMoreRoomLater
	case placement.RightsMissing:
		return diagnosis.Refused, attempts.ShortTime
	case placement.ScheduledElsewhere:
		return diagnosis.ScheduledElsewhere, attempts.TimeOrMoreRoom
	case placement.CreateFailed:
		return diagnosis.CreateFailed, attempts.TimeOrMoreRoom
	case placement.NoTurn:
		return diagnosis.CreateFailed, attempts.ShortTime
	case placement.StillEnding:
		return diagnosis.StillEnding, attempts.TimeOrMoreRoom
	default: // placement.Late
		return diagnosis.TimedOut, attempts.TimeOrMoreRoom
	}
}

// outcomeOf returns the outcome of an attempt, and its reason.
func outcomeOf(err error) (diagnosis.Outcome, string) {
	var refused *placement.RefusedError
	switch {
	case err == nil:
		return diagnosis.Bound, ""
	case errors.As(err, &refused):
		outcome, _ := consequencesOf(refused.Refusal)
		return outcome, refused.Reason
	case errors.As(err, new(*placement.CreateError)):
		return diagnosis.CreateFailed, err.Error()
	default:
		return diagnosis.Lost, err.Error()
	}
}

// failureOf returns what is to be remembered of an attempt that failed.
func failureOf(err error, t *target, preempts bool) attempts.Failure {
	failure := attempts.Failure{NodeName: t.NodeName, Lost: !t.Reachable(), Preempts: preempts}
	var refused *placement.RefusedError
	if errors.As(err, &refused) {
		failure.Refused, failure.Reason, failure.MoreRoom = true, refused.Reason, refused.MoreRoom
		_, failure.BackOff = consequencesOf(refused.Refusal)
	}
	return failure
}
