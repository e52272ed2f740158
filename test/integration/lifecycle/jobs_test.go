package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// counted gives a pod the finalizer of the Job controller, which counts how it ended.
func counted(pod *corev1.Pod) { pod.Finalizers = []string{"batch.kubernetes.io/job-tracking"} }

// TestNoEndOfAJobsPodsIsLost has 200 pods that are deleted and end, and whose kubelet confirms the deletion in the
// moment in which it has written the last status.
func TestNoEndOfAJobsPodsIsLost(t *testing.T) {
	t.Parallel()
	const pods = 200
	c2 := engaged(t)
	var proxies, delegates [pods]*corev1.Pod
	for i := range pods {
		change := counted
		if i%2 == 1 {
			change = func(*corev1.Pod) {}
		}
		proxies[i], delegates[i] = place(t, c2, "job-"+strconv.Itoa(i), never, change)
		env.Bind(t, target, delegates[i], "node")
		report(t, delegates[i], corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	}
	for i := range pods {
		waitForPhase(t, proxies[i], corev1.PodRunning)
	}
	ends := watchEnds(t, c2.Key.Namespace)
	env.Must(t, source.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(c2.Key.Namespace)))
	for i, delegate := range delegates {
		waitForDeletion(t, target, delegate, corev1.DefaultTerminationGracePeriodSeconds)
		report(t, delegate, phaseOf(i), exited(codeOf(i)))
		confirm(t, delegate)
	}
	for i, proxy := range proxies {
		env.Eventually(t, func(ctx context.Context) error {
			collect(t, delegates[i])
			live := ends.of(proxy.Name)
			if i%2 == 0 {
				live = &corev1.Pod{}
				if err := source.Client.Get(ctx, client.ObjectKeyFromObject(proxy), live); err != nil {
					return err
				}
			}
			return hasEnded(live, phaseOf(i), codeOf(i))
		})
		if i%2 == 0 {
			env.RemoveFinalizers(t, source, proxy)
		}
	}
}

func never(pod *corev1.Pod) { pod.Spec.RestartPolicy = corev1.RestartPolicyNever }

func codeOf(i int) int32 { return int32(i % 3) }

func phaseOf(i int) corev1.PodPhase {
	if codeOf(i) == 0 {
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

func hasEnded(pod *corev1.Pod, phase corev1.PodPhase, code int32) error {
	if pod == nil {
		return errors.New("the pod is not gone")
	}
	statuses := pod.Status.ContainerStatuses
	if pod.Status.Phase != phase || len(statuses) != 1 || statuses[0].State.Terminated == nil ||
		statuses[0].State.Terminated.ExitCode != code {
		return fmt.Errorf("phase %q, statuses %v, want %q and exit code %d", pod.Status.Phase, statuses, phase, code)
	}
	return nil
}

// endsOfPods are pods as they were when they went, by name.
type endsOfPods struct {
	events <-chan watch.Event
	seen   map[string]*corev1.Pod
}

func watchEnds(t *testing.T, namespace string) *endsOfPods {
	t.Helper()
	watching, err := client.NewWithWatch(source.Config, client.Options{Scheme: env.Scheme()})
	env.Must(t, err)
	w, err := watching.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(namespace))
	env.Must(t, err)
	t.Cleanup(w.Stop)
	return &endsOfPods{w.ResultChan(), map[string]*corev1.Pod{}}
}

// of returns the pod as it was when it went, or nil if it has not gone yet.
func (e *endsOfPods) of(name string) *corev1.Pod {
	for {
		select {
		case event := <-e.events:
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				e.seen[pod.Name] = pod
			}
		default:
			return e.seen[name]
		}
	}
}
