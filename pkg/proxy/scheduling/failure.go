package scheduling

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
)

// handleFailure adds to what kube-scheduler does with a pod that was not scheduled. The messages name targets. A pod
// that a target refused, or that is to be tried in a target, is scheduled again at once. Nothing is written for a pod
// that is gone, nor by a scheduler that ends.
func (s *Scheduler) handleFailure(
	handle kubescheduler.FailureHandlerFn,
	pods queue.SchedulingQueue,
) kubescheduler.FailureHandlerFn {
	return func(
		ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time,
	) {
		status = s.bindInstead(ctx, pod.Pod, status)
		err := status.AsError()
		uid := pod.Pod.UID
		if status.IsSuccess() || ctx.Err() != nil || errors.As(err, new(*placement.ConcludedError)) {
			s.plugin.concluded(uid)
			pods.Done(uid)
			return
		}
		next := s.plugin.attempts.TakeNext(uid)
		again := next.Again
		said := messageFramework{Framework: f, writer: conditionWriter{ctx: ctx, clients: s.clientset}}
		var unfit *framework.FitError
		var kept *keptError
		switch {
		case errors.As(err, &unfit) && again: // All but one target were not looked at.
		case errors.As(err, &unfit):
			again = next.Trial.Exists()
			said.message = s.report(pod.Pod, unfit, next)
		case errors.Is(err, kubescheduler.ErrNoNodesAvailable):
			s.plugin.explanations.Looked(pod.Pod, diagnosis.NoTargets, nil)
			said.message = diagnosis.NoTargets
		case errors.As(err, &kept):
			again = true
			said.message = diagnosis.Shorten(kept.Error())
			s.plugin.explanations.Stopped(pod.Pod, kept.Error())
		case invited(err):
			again = true
		default:
			again = errors.As(err, new(*placement.RefusedError))
			said.message = diagnosis.Shorten(status.Message())
			if notToBlame(err) {
				s.plugin.explanations.Stopped(pod.Pod, status.Message())
			}
		}
		handle(ctx, said, pod, status, nominating, start)
		if concludedMeanwhile(f, pod.Pod) { // The event may have come before the last attempt was remembered.
			s.plugin.concluded(uid)
		} else if again {
			s.plugin.waker.pod(client.ObjectKeyFromObject(pod.Pod), uid)
		}
	}
}

// bindInstead binds a pod that fits no node, if its delegate has one already. It returns the status of that, or the
// pod's own if there is no such delegate.
func (s *Scheduler) bindInstead(ctx context.Context, pod *corev1.Pod, status *fwk.Status) *fwk.Status {
	if !errors.As(status.AsError(), new(*framework.FitError)) {
		return status
	}
	switch done, err := s.plugin.bindScheduled(ctx, pod); {
	case done:
		return nil // A success.
	case err != nil:
		return fwk.AsStatus(err)
	default:
		return status
	}
}

// concludedMeanwhile says whether the pod is bound or gone by now, according to the cache.
func concludedMeanwhile(f framework.Framework, pod *corev1.Pod) bool {
	cached, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get(pod.Name)
	if err != nil || cached.UID != pod.UID {
		return true
	}
	_, ended := conclusion(cached)
	return ended
}

// report keeps for explain why no target was found, and returns as much of it as fits into an event.
func (s *Scheduler) report(pod *corev1.Pod, unfit *framework.FitError, next attempts.Next) string {
	if message := unfit.Diagnosis.PreFilterMsg; message != "" { // It is about the pod, not about targets.
		if !unfit.Diagnosis.UnschedulablePlugins.Has(Name) {
			message = diagnosis.KubeScheduler(message)
		}
		s.plugin.explanations.Looked(pod, message, nil)
		return message
	}
	var looked []diagnosis.Target
	if statuses := unfit.Diagnosis.NodeToStatus; statuses != nil {
		statuses.ForEachExplicitNode(func(nodeName string, status *fwk.Status) {
			reason := s.plugin.reasonOf(pod, nodeName, status)
			trial := next.Prospects[nodeName].String()
			looked = append(looked, diagnosis.Target{Node: nodeName, Reason: reason, Trial: trial})
		})
	}
	looked = s.plugin.named(looked)
	tried := diagnosis.Target{Name: s.plugin.nameOf(next.Trial.NodeName), Trial: next.Trial.Prospect.String()}
	full, short := diagnosis.Message(unfit.NumAllNodes, looked, tried)
	s.plugin.explanations.Looked(pod, full, looked)
	return short
}

// reasonOf the rejection of a pod's node, by Admiralty or by one of kube-scheduler's plugins.
func (p *plugin) reasonOf(pod *corev1.Pod, nodeName string, status *fwk.Status) string {
	switch status.Plugin() {
	case Name:
		return status.Message()
	case names.TaintToleration:
		if taint, found := p.untolerated(pod, nodeName); found {
			return diagnosis.Tainted(taint)
		}
	}
	return diagnosis.FromPlugin(status.Plugin(), status.Reasons())
}

// untolerated returns the taint of a node by which TaintToleration rejects the pod. It finds none if the node has
// changed since.
func (p *plugin) untolerated(pod *corev1.Pod, nodeName string) (taint corev1.Taint, found bool) {
	node, err := p.nodes.Get(nodeName)
	if err != nil {
		return taint, false
	}
	return corev1helpers.FindMatchingUntoleratedTaint(
		logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), false,
	)
}
