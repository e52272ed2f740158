package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// named is how many targets a message names of those that have the same reason.
const named = 3

// handleFailure adds to what kube-scheduler does with a pod that was not scheduled: its messages name targets, a pod that a
// target refused is tried again at once, and nothing is written for a pod that is gone or by a scheduler that ends.
func (s *Scheduler) handleFailure(handle kubescheduler.FailureHandlerFn, pods queue.SchedulingQueue) kubescheduler.FailureHandlerFn {
	return func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		err := status.AsError()
		if ctx.Err() != nil || errors.As(err, new(*settledError)) {
			pods.Done(pod.Pod.UID)
			return
		}
		var unfit *framework.FitError
		if errors.As(err, &unfit) {
			s.explain(unfit)
		}
		handle(ctx, f, pod, status, nominating, start)
		if errors.As(err, new(*refusedError)) {
			s.wakePod(client.ObjectKeyFromObject(pod.Pod), pod.Pod.UID)
		}
	}
}

// explain replaces counts of nodes by the targets' names. That preemption does not help either goes without saying.
func (s *Scheduler) explain(unfit *framework.FitError) {
	if unfit.Diagnosis.PreFilterMsg != "" || unfit.Diagnosis.NodeToStatus == nil {
		return
	}
	byReason := map[string][]string{}
	unfit.Diagnosis.NodeToStatus.ForEachExplicitNode(func(nodeName string, status *fwk.Status) {
		name := nodeName
		if t := s.plugin.targets.get(nodeName); t != nil {
			name = t.name()
		}
		reason := strings.Join(status.Reasons(), ", ")
		byReason[reason] = append(byReason[reason], name)
	})
	if len(byReason) == 0 {
		return
	}
	parts := make([]string, 0, len(byReason))
	for reason, targets := range byReason {
		parts = append(parts, enumerate(targets)+": "+reason)
	}
	slices.Sort(parts)
	unfit.Diagnosis.PreFilterMsg = strings.Join(parts, "; ")
	unfit.Diagnosis.PostFilterMsg = ""
}

func enumerate(names []string) string {
	slices.Sort(names)
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}
