package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/performance/report"
)

// roundLabel is the label that changes, and roundInTarget its key in the delegate.
const (
	roundLabel    = "round"
	roundInTarget = v1alpha1.GroupName + "/" + roundLabel
)

// feedback changes the condition Ready of delegates, as their kubelets do when readiness probes fail and succeed.
func (b *bench) feedback(ctx context.Context) error {
	pods := b.scaled(feedbackPods)
	return b.changing(ctx, load{scenario: report.Feedback, pods: pods}, []string{report.Elected},
		variant{name: report.OneByOne, pods: pods, change: b.flip},
		variant{name: report.AtOnce, pods: pods, clients: creators, change: b.flip})
}

func (b *bench) flip(_, number int) change {
	status := corev1.ConditionFalse
	if number%2 == 1 {
		status = corev1.ConditionTrue
	}
	return change{
		send: func(ctx context.Context, p pair) error {
			now := time.Now().UTC().Format(time.RFC3339)
			var conditions []map[string]any
			for _, of := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
				conditions = append(conditions, map[string]any{"type": of, "status": status, "lastTransitionTime": now})
			}
			patch := map[string]any{"status": map[string]any{"conditions": conditions}}
			return b.patchPod(ctx, changeTarget, p.delegate, patch, "status")
		},
		done: func(pod *corev1.Pod) bool { return conditionIs(pod, corev1.PodReady, status) },
	}
}

func conditionIs(pod *corev1.Pod, of corev1.PodConditionType, status corev1.ConditionStatus) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == of {
			return c.Status == status
		}
	}
	return false
}

// labels changes a label of running pods.
func (b *bench) labels(ctx context.Context) error {
	pods := b.scaled(labelsPods)
	return b.changing(ctx, load{scenario: report.Labels, pods: pods}, []string{report.Plain, report.Elected},
		variant{name: report.OneByOne, pods: pods, change: b.relabel},
		variant{name: report.AtOnce, pods: pods, clients: creators, change: b.relabel})
}

func (b *bench) relabel(_, number int) change {
	value := strconv.Itoa(number)
	return change{
		send: b.patch(map[string]any{"metadata": map[string]any{"labels": map[string]any{roundLabel: value}}}),
		wished: func(pod *corev1.Pod) bool {
			return pod.Labels[roundLabel] == value || pod.Labels[roundInTarget] == value
		},
	}
}

// inPlace changes the image of running pods, and the resources of some of them, on the real nodes: only a kubelet
// carries this out.
func (b *bench) inPlace(ctx context.Context) error {
	if err := loadImages(ctx); err != nil {
		return fmt.Errorf("loading images: %w", err)
	}
	l := load{scenario: report.InPlace, pods: b.scaled(imagePods), real: true}
	return b.changing(ctx, l, []string{report.Plain, report.Elected},
		variant{name: report.Image, pods: l.pods, clients: creators, change: b.reimage},
		variant{name: report.Resize, pods: b.scaled(resizePods), clients: creators, change: b.resize})
}

// reimage gives the pods the image of a round. Kubelets start the container again then. They do not always show the
// name of the image, because all these images have one content.
func (b *bench) reimage(round, _ int) change {
	image := realImage(round + 1)
	container := map[string]any{"name": "main", "image": image}
	return change{
		send:   b.patch(map[string]any{"spec": map[string]any{"containers": []any{container}}}),
		wished: func(pod *corev1.Pod) bool { return pod.Spec.Containers[0].Image == image },
		done: func(pod *corev1.Pod) bool {
			statuses := pod.Status.ContainerStatuses
			return observed(pod) && len(statuses) == 1 && statuses[0].RestartCount > int32(round) &&
				statuses[0].State.Running != nil && statuses[0].Ready
		},
	}
}

// resize changes the CPU that the pods request.
func (b *bench) resize(round, _ int) change {
	cpu := resource.MustParse(fmt.Sprintf("%dm", 11+round))
	container := map[string]any{
		"name": "main", "resources": map[string]any{"requests": map[string]any{"cpu": cpu.String()}},
	}
	return change{
		send: b.patch(map[string]any{"spec": map[string]any{"containers": []any{container}}}, "resize"),
		wished: func(pod *corev1.Pod) bool {
			return pod.Spec.Containers[0].Resources.Requests.Cpu().Cmp(cpu) == 0
		},
		done: func(pod *corev1.Pod) bool {
			statuses := pod.Status.ContainerStatuses
			return observed(pod) && len(statuses) == 1 && statuses[0].Resources != nil &&
				statuses[0].Resources.Requests.Cpu().Cmp(cpu) == 0
		},
	}
}

// observed says whether the status belongs to the newest spec of the pod.
func observed(pod *corev1.Pod) bool { return pod.Status.ObservedGeneration >= pod.Generation }
