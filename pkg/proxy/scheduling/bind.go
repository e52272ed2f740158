package scheduling

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// Bind places the delegate, waits until its target has scheduled it, and binds the pod to the virtual node.
func (p *plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, nodeName string) *fwk.Status {
	c, err := read(state)
	if err != nil {
		return fwk.AsStatus(err)
	}
	t := p.targets.get(nodeName)
	if t == nil {
		return fwk.AsStatus(
			fmt.Errorf("placing the delegate: the target of node %q is not connected any more", nodeName),
		)
	}
	if err := p.place(ctx, c, pod, t); errors.As(err, new(*refusedError)) || errors.As(err, new(*needs.MissingError)) {
		return fwk.NewStatus(fwk.Unschedulable).WithError(err)
	} else if err != nil {
		return fwk.AsStatus(err)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	status := p.binder.Bind(ctx, state, pod, nodeName)
	if status.IsSuccess() {
		p.explanations.Bound(pod, nodeName)
	}
	return status
}

// place the delegate, and tell of it.
func (p *plugin) place(ctx context.Context, c *cycle, pod *corev1.Pod, t *target) error {
	k := c.accepted
	if c.holder == t &&
		canGrow(c.demand, t, t.ledger.Room()) { // A new leader does not know what the last one hoped for.
		k = grow
	}
	start := p.placer.clock.Now()
	p.explanations.Started(pod, t.name(), k.String())
	err := p.placer.place(ctx, pod, t, k)
	outcome, reason := outcomeOf(err)
	p.explanations.Ended(pod, t.name(), outcome, reason)
	p.metrics.placed(t.name(), outcome, p.placer.clock.Since(start))
	return err
}

// outcomeOf an attempt to place a delegate, for people and programs.
func outcomeOf(err error) (diagnosis.Outcome, string) {
	var refused *refusedError
	switch {
	case err == nil:
		return diagnosis.Bound, ""
	case errors.As(err, new(*createError)):
		return diagnosis.CreateFailed, err.Error()
	case !errors.As(err, &refused):
		return diagnosis.Lost, err.Error()
	}
	switch refused.kind {
	case late:
		return diagnosis.TimedOut, refused.reason
	case elsewhere:
		return diagnosis.ScheduledElsewhere, refused.reason
	case createFailed:
		return diagnosis.CreateFailed, refused.reason
	case stillEnding:
		return diagnosis.StillEnding, refused.reason
	default:
		return diagnosis.Refused, refused.reason
	}
}
