package scheduling

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
)

// handleFailure adds to what kube-scheduler does with a pod that was not scheduled: its messages name targets, a pod
// that a target refused, or that is to be tried in one, is scheduled again at once, and nothing is written for a pod
// that is gone or by a scheduler that ends.
func (s *Scheduler) handleFailure(
	handle kubescheduler.FailureHandlerFn,
	pods queue.SchedulingQueue,
) kubescheduler.FailureHandlerFn {
	return func(
		ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status,
		nominating *fwk.NominatingInfo, start time.Time,
	) {
		err := status.AsError()
		if ctx.Err() != nil || errors.As(err, new(*concludedError)) {
			pods.Done(pod.Pod.UID)
			return
		}
		key, uid := client.ObjectKeyFromObject(pod.Pod), pod.Pod.UID
		next, again := s.plugin.trials.next(uid)
		said := messageFramework{Framework: f, writer: conditionWriter{ctx: ctx, clients: s.clientset}}
		var unfit *framework.FitError
		switch {
		case errors.As(err, &unfit) && again: // All but one target were not looked at.
		case errors.As(err, &unfit):
			again = next.kind != fits
			said.message = s.report(pod.Pod, unfit, next)
		case errors.Is(err, kubescheduler.ErrNoNodesAvailable):
			s.plugin.explanations.Looked(pod.Pod, diagnosis.NoTargets, nil)
			said.message = diagnosis.NoTargets
		default:
			again = errors.As(err, new(*refusedError))
			said.message = diagnosis.Shorten(status.Message())
		}
		handle(ctx, said, pod, status, nominating, start)
		if cached, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(
			key.Namespace,
		).Get(
			key.Name,
		); err != nil ||
			cached.UID != uid {
			s.forget(uid) // It was deleted meanwhile.
		} else if again {
			s.wakePod(key, uid)
		}
	}
}

// report why no target was found, in full to those who ask, and with what fits into an event to be returned.
func (s *Scheduler) report(pod *corev1.Pod, unfit *framework.FitError, next trial) string {
	if message := unfit.Diagnosis.PreFilterMsg; message != "" { // It is about the pod, not about targets.
		if !unfit.Diagnosis.UnschedulablePlugins.Has(Name) {
			message = diagnosis.KubeScheduler(message)
		}
		s.plugin.explanations.Looked(pod, message, nil)
		return message
	}
	var looked []diagnosis.Target
	candidates := s.plugin.trials.candidates(pod.UID)
	if statuses := unfit.Diagnosis.NodeToStatus; statuses != nil {
		statuses.ForEachExplicitNode(func(nodeName string, status *fwk.Status) {
			looked = append(
				looked,
				diagnosis.Target{Node: nodeName, Reason: reasonOf(status), Trial: candidates[nodeName].kind.String()},
			)
		})
	}
	looked = s.plugin.named(looked)
	tried := diagnosis.Target{Name: s.plugin.nameOf(next.nodeName), Trial: next.kind.String()}
	full, short := diagnosis.Message(unfit.NumAllNodes, looked, tried)
	s.plugin.explanations.Looked(pod, full, looked)
	return short
}

// reasonOf a node's rejection, by Admiralty or by one of kube-scheduler's plugins.
func reasonOf(status *fwk.Status) string {
	if status.Plugin() == Name {
		return status.Message()
	}
	return diagnosis.FromPlugin(status.Plugin(), status.Reasons())
}
