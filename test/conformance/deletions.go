package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletionActions end pods.
func deletionActions() []*testCase {
	const deletion, eviction = "kubectl delete", "Eviction and drain"
	return []*testCase{
		inShort(action(deletion, "delete", "a deletion with the pod's own grace period", deleted())),
		action(deletion, "delete-grace-period", "a deletion with a grace period", deleted("--grace-period=2")),
		action(deletion, "delete-now", "a deletion with one second", deleted("--now")),
		inShort(action(deletion, "delete-force", "a deletion by force", deleted("--grace-period=0", "--force"))),
		action(deletion, "delete-background", "a deletion in the background", deleted("--cascade=background")),
		action(deletion, "delete-foreground", "a deletion in the foreground", deleted("--cascade=foreground")),
		action(deletion, "delete-by-label", "a deletion by a label", deleteByLabel),
		action(deletion, "delete-unscheduled", "a deletion of a pod that has no node", deleteUnscheduled),
		action(deletion, "delete-finalizer", "a deletion of a pod with a finalizer", deleteFinalizer),
		inShort(action(deletion, "delete-last-status", "the last status of a pod that is being deleted", lastStatus)),
		action(deletion, "delete-pre-stop-exec", "a command before the container is stopped", preStopCommand),
		action(deletion, "delete-pre-stop-http", "a request before the container is stopped", preStopRequest),
		action(deletion, "delete-orphan", "a deletion of a ReplicaSet that leaves its pods", deleteOrphan),
		inShort(action(eviction, "evict", "an eviction", evict)),
		action(eviction, "evict-budget", "an eviction that a budget refuses", evictWithin),
		action(eviction, "evict-by-kubelet", "a kubelet evicts the pod, whose volume is too full", evictByKubelet),
		byItself(action(eviction, "drain", "a drain of the node", drain)),
	}
}

// deleted deletes a pod that ends when it is told to, and waits until it is gone.
func deleted(args ...string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.start(ctx, newPod("pod", "sleep", "infinity")); err != nil {
			return err
		}
		s.try(ctx, "delete", append([]string{"delete", "pod", "pod", "--timeout=2m"}, args...)...)
		s.try(ctx, "get", "get", "pod", "pod")
		return nil
	}
}

func deleteByLabel(ctx context.Context, s *side) error {
	for _, name := range []string{"a", "b", "c"} {
		pod := newPod(name)
		if name != "c" {
			pod.Labels = map[string]string{"app": "web"}
		}
		if err := s.start(ctx, pod); err != nil {
			return err
		}
	}
	s.try(ctx, "delete", "delete", "pod", "-l", "app=web", "--timeout=2m")
	s.try(ctx, "get", "get", "pod", "-o", "name")
	return nil
}

func deleteUnscheduled(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Spec.NodeSelector = map[string]string{"example.com/no": "where"}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.reach(ctx, "pod", `{.status.conditions[?(@.type=="PodScheduled")].status}=False`); err != nil {
		return err
	}
	s.try(ctx, "delete", "delete", "pod", "pod", "--timeout=2m")
	s.try(ctx, "get", "get", "pod", "pod")
	return nil
}

func deleteFinalizer(ctx context.Context, s *side) error {
	pod := newPod("pod", "sleep", "infinity")
	pod.Finalizers = []string{"example.com/held"}
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
	if err := s.reach(ctx, "pod", "{.status.phase}=Succeeded"); err != nil {
		return err
	}
	if err := s.noteStatus(ctx, "held"); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "-p", `{"metadata":{"finalizers":null}}`)
	return s.gone(ctx, pod)
}

// gone waits until an object does not exist.
func (s *side) gone(ctx context.Context, object client.Object) error {
	return s.await(ctx, object.GetName()+" to be gone", func(ctx context.Context) error {
		err := s.get(ctx, object.GetName(), object)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return fmt.Errorf("it is still there")
	})
}

// lastStatus watches a pod until it is gone.
func lastStatus(ctx context.Context, s *side) error {
	pod := newPod("pod", "sleep", "infinity", "--ignore-term")
	pod.Spec.TerminationGracePeriodSeconds = new(int64(2))
	return s.noteLast(ctx, pod)
}

// preStopCommand has a command that writes the message with which the container ends.
func preStopCommand(ctx context.Context, s *side) error {
	pod := newPod("pod", "sleep", "infinity")
	command := []string{program, "write", corev1.TerminationMessagePathDefault, "told to stop"}
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
		PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}},
	}
	return s.noteLast(ctx, pod)
}

// preStopRequest follows the log, in which the container notes requests.
func preStopRequest(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/told-to-stop", Port: intstr.FromInt32(8080)},
	}}
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := s.command(ctx, "logs", "-f", "pod")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("following the log: %w", err)
	}
	lines := bufio.NewScanner(out)
	if !awaitLine(lines, "serves on") {
		return errors.Join(errors.New("the log does not begin"), lines.Err(), cmd.Wait())
	}
	s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
	arrived := awaitLine(lines, "GET /told-to-stop")
	_, err = io.Copy(io.Discard, out)
	s.noteOutput("log", fmt.Sprintf("the request is in the log: %t", arrived), errors.Join(err, cmd.Wait()))
	return s.gone(ctx, pod)
}

// noteLast starts a pod, deletes it, and notes its last status.
func (s *side) noteLast(ctx context.Context, pod *corev1.Pod) error {
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := s.c.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
	for event := range events.ResultChan() {
		last, ok := event.Object.(*corev1.Pod)
		if !ok || event.Type != "DELETED" {
			continue
		}
		s.note("last", tree{
			"phase": string(last.Status.Phase), "container": stateOf(last.Status.ContainerStatuses[0].State),
			"message":      messageOf(last.Status.ContainerStatuses[0].State),
			"grace period": fmt.Sprint(*last.DeletionGracePeriodSeconds),
		})
		return nil
	}
	return fmt.Errorf("the pod was not seen to go")
}

func messageOf(state corev1.ContainerState) string {
	if state.Terminated == nil {
		return ""
	}
	return state.Terminated.Message
}

func deleteOrphan(ctx context.Context, s *side) error {
	set := newReplicaSet("web", 2)
	if err := s.create(ctx, set); err != nil {
		return err
	}
	if err := s.reachObject(ctx, set, "web", "{.status.readyReplicas}=2"); err != nil {
		return err
	}
	s.try(ctx, "delete", "delete", "rs", "web", "--cascade=orphan", "--timeout=2m")
	if err := s.ready(ctx, 2, "app=web"); err != nil {
		return err
	}
	pods, err := s.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		s.note(fmt.Sprintf("owners of pod %d", i), fmt.Sprint(len(pods[i].OwnerReferences)))
	}
	return nil
}

func evict(ctx context.Context, s *side) error {
	pod := newPod("pod", "sleep", "infinity")
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	if err := s.c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{}); err != nil {
		return fmt.Errorf("evicting: %w", err)
	}
	return s.gone(ctx, pod)
}

// evictByKubelet has an init container that writes more than the volume may have. The other container is killed: if it
// ended well, the pod could count as Succeeded, and not as evicted.
func evictByKubelet(ctx context.Context, s *side) error {
	pod := withData(newPod("pod", "sleep", "infinity", "--ignore-term"))
	limit := resource.MustParse("4Ki")
	pod.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
	writer := newContainer("writer", "write", "/data/file", strings.Repeat("much ", 10000))
	writer.VolumeMounts = pod.Spec.Containers[0].VolumeMounts
	pod.Spec.InitContainers = []corev1.Container{writer}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.reachObject(ctx, pod, "pod", "{.status.phase}=Failed", "{.status.reason}=Evicted"); err != nil {
		return err
	}
	s.note("message", pod.Status.Message)
	return s.await(ctx, "an event", func(ctx context.Context) error {
		events, err := s.events(ctx, pod)
		if err == nil && events[pod.Status.Reason] == nil {
			return fmt.Errorf("the events are %v", events)
		}
		return err
	})
}

func evictWithin(ctx context.Context, s *side) error {
	budget := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: new(intstr.FromInt32(1)), Selector: labels("pod"),
	}}
	budget.Name = "budget"
	if err := s.create(ctx, budget); err != nil {
		return err
	}
	pod := newPod("pod")
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	if err := s.reachObject(ctx, budget, "budget", "{.status.currentHealthy}=1"); err != nil {
		return err
	}
	err := s.c.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{})
	s.note("refused", fmt.Sprint(apierrors.IsTooManyRequests(err))+": "+fmt.Sprint(err))
	return s.noteStatus(ctx, "after")
}

// drain drains the node of the side's pods, of these pods only, and uncordons it.
func drain(ctx context.Context, s *side) (err error) {
	const app = "conformance-drain" // No other case has such pods.
	set := newReplicaSet(app, 1)
	if err := s.create(ctx, set); err != nil {
		return err
	}
	if err := s.reachObject(ctx, set, app, "{.status.readyReplicas}=1"); err != nil {
		return err
	}
	before, err := s.pods(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if _, failed := s.kubectl(context.WithoutCancel(ctx), "uncordon", s.node); err == nil {
			err = failed
		}
		if err == nil {
			err = s.ready(ctx, 1, "app="+app)
		}
	}()
	if out, err := s.kubectl(ctx, "drain", s.node, "--pod-selector=app="+app, "--ignore-daemonsets",
		"--delete-emptydir-data", "--timeout=2m"); err != nil {
		return fmt.Errorf("draining: %w: %s", err, out)
	}
	return s.gone(ctx, &before[0])
}
