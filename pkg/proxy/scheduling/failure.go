package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/explain"
)

const (
	// namedAlike is how many targets a message names of those that have the same reason.
	namedAlike = 3
	// maxMessage is the length of a message in bytes, so that the API server takes it as the note of an event.
	maxMessage = 1024
	// noTargets is for pods where there is not one virtual node.
	noTargets = "no cluster is available: none is connected (kubectl multicluster connect connects one, kubectl multicluster status lists them)"
)

// handleFailure adds to what kube-scheduler does with a pod that was not scheduled: its messages name targets, a pod that a target
// refused, or that is to be tried in one, is scheduled again at once, and nothing is written for a pod that is gone or by a scheduler that ends.
func (s *Scheduler) handleFailure(handle kubescheduler.FailureHandlerFn, pods queue.SchedulingQueue) kubescheduler.FailureHandlerFn {
	return func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		err := status.AsError()
		if ctx.Err() != nil || errors.As(err, new(*settledError)) {
			pods.Done(pod.Pod.UID)
			return
		}
		key, uid := client.ObjectKeyFromObject(pod.Pod), pod.Pod.UID
		next, again := s.plugin.trials.next(uid)
		said := telling{Framework: f, writer: conditionWriter{ctx: ctx, clients: s.clientset}}
		var unfit *framework.FitError
		switch {
		case errors.As(err, &unfit) && again: // All but one target were not looked at.
		case errors.As(err, &unfit):
			again = next.kind != fits
			said.message = s.tell(pod.Pod, unfit, next)
		case errors.Is(err, kubescheduler.ErrNoNodesAvailable):
			s.plugin.explanations.Looked(pod.Pod, noTargets, nil)
			said.message = noTargets
		default:
			again = errors.As(err, new(*refusedError))
			said.message = abridge([]string{status.Message()}, maxMessage)
		}
		handle(ctx, said, pod, status, nominating, start)
		if cached, err := f.SharedInformerFactory().Core().V1().Pods().Lister().Pods(key.Namespace).Get(key.Name); err != nil || cached.UID != uid {
			s.forget(uid) // It was deleted meanwhile.
		} else if again {
			s.wakePod(key, uid)
		}
	}
}

// tell why no target was found, in full to those who ask, and with what fits into an event to be returned.
func (s *Scheduler) tell(pod *corev1.Pod, unfit *framework.FitError, next trial) string {
	if unfit.Diagnosis.PreFilterMsg != "" { // It is about the pod, not about targets.
		s.plugin.explanations.Looked(pod, unfit.Diagnosis.PreFilterMsg, nil)
		return unfit.Diagnosis.PreFilterMsg
	}
	var looked []explain.Target
	hopes := s.plugin.trials.candidates(pod.UID)
	if statuses := unfit.Diagnosis.NodeToStatus; statuses != nil {
		statuses.ForEachExplicitNode(func(nodeName string, status *fwk.Status) {
			looked = append(looked, explain.Target{Node: nodeName, Reason: reasonOf(status), Trial: hopes[nodeName].kind.String()})
		})
	}
	looked = s.plugin.named(looked)
	head, tail := fmt.Sprintf("0/%d clusters are available: ", unfit.NumAllNodes), "."
	if next.kind != fits {
		tail = fmt.Sprintf(". Trying %s, %s.", s.plugin.nameOf(next.nodeName), next.kind.hope())
	}
	parts := byReason(looked)
	s.plugin.explanations.Looked(pod, head+strings.Join(parts, "; ")+tail, looked)
	return head + abridge(parts, maxMessage-len(head)-len(tail)) + tail
}

// reasonOf a node's rejection, without words about nodes, which users of virtual nodes do not think of.
func reasonOf(status *fwk.Status) string {
	switch status.Plugin() {
	case names.NodeUnschedulable:
		return "cordoned"
	case names.NodeAffinity:
		return "does not match the pod's constraints on clusters"
	case names.PodTopologySpread:
		return "does not match the pod's topology spread constraints on clusters"
	case names.InterPodAffinity:
		return "does not match the pod's affinity to pods on clusters"
	case names.TaintToleration:
		return strings.Replace(strings.Join(status.Reasons(), ", "), "node(s) had untolerated taint(s)", "its virtual node has a taint that the pod does not tolerate", 1)
	default:
		return strings.Join(status.Reasons(), ", ")
	}
}

// byReason tells the targets that have the same reason together.
func byReason(looked []explain.Target) []string {
	targets := map[string][]string{}
	for i := range looked {
		targets[looked[i].Reason] = append(targets[looked[i].Reason], looked[i].Name)
	}
	parts := make([]string, 0, len(targets))
	for reason, alike := range targets {
		parts = append(parts, enumerate(alike)+": "+reason)
	}
	slices.Sort(parts)
	return parts
}

func enumerate(targets []string) string {
	slices.Sort(targets)
	if len(targets) <= namedAlike {
		return strings.Join(targets, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(targets[:namedAlike], ", "), len(targets)-namedAlike)
}

// abridge joins as many parts as fit into so many bytes, and says where the others are told.
func abridge(parts []string, limit int) string {
	all := strings.Join(parts, "; ")
	if len(all) <= limit {
		return all
	}
	const rest = "; and more: see kubectl multicluster explain pod"
	kept := ""
	for i, part := range parts {
		next := part
		if i > 0 {
			next = kept + "; " + part
		}
		if len(next)+len(rest) > limit {
			break
		}
		kept = next
	}
	if kept == "" {
		kept = cut(parts[0], limit-len(rest))
	}
	return kept + rest
}

func cut(text string, limit int) string {
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
