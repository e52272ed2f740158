package scheduling

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// messageFramework is a framework with which kube-scheduler's failure handler writes our message into the pod's event
// and condition. There is no simpler way: the handler takes its words from an error of its own type. Without a message
// it writes nothing.
type messageFramework struct {
	framework.Framework

	message string
	writer  conditionWriter
}

// EventRecorder records the message instead of what it is given.
func (t messageFramework) EventRecorder() events.EventRecorderLogger {
	return messageRecorder{t.Framework.EventRecorder(), t.message}
}

// APICacher writes the message into conditions.
func (t messageFramework) APICacher() fwk.APICacher {
	t.writer.message = t.message
	return t.writer
}

type messageRecorder struct {
	events.EventRecorderLogger

	message string
}

// WithLogger keeps the message.
func (r messageRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return messageRecorder{r.EventRecorderLogger.WithLogger(logger), r.message}
}

// Eventf records the message.
func (r messageRecorder) Eventf( //nolint:revive // the interface has so many parameters
	regarding, related runtime.Object, eventType, reason, action, _ string, _ ...any,
) {
	if r.message == "" {
		return
	}
	r.EventRecorderLogger.Eventf(regarding, related, eventType, reason, action, "%s", r.message)
}

// conditionWriter writes conditions of pods, as far as they differ; it writes nothing else.
type conditionWriter struct {
	fwk.APICacher

	ctx     context.Context //nolint:containedctx // of the failure handler's call, which the interface has no room for
	clients kubernetes.Interface
	message string
}

// PatchPodStatus writes the conditions at once, with our message.
func (w conditionWriter) PatchPodStatus(
	pod *corev1.Pod,
	conditions []*corev1.PodCondition,
	_ *fwk.NominatingInfo,
) (<-chan error, error) {
	if w.message == "" {
		return nil, nil
	}
	changed := pod.Status.DeepCopy()
	differs := false
	for _, condition := range conditions {
		said := *condition
		said.Message = w.message
		differs = podutil.UpdatePodCondition(changed, &said) || differs
	}
	if !differs {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, timeouts.Request)
	defer cancel()
	return nil, util.PatchPodStatus(ctx, w.clients, pod.Name, pod.Namespace, &pod.Status, changed)
}
