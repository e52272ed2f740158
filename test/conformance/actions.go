package main

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const image = "localhost/whoami:dev"

// action returns a case from a function that acts and notes what it sees.
func action(topic, name, what string, act func(ctx context.Context, s *side) error) *testCase {
	c := &testCase{name: name, topic: topic, what: what, begin: func(ctx context.Context, s *side) error {
		return act(ctx, s)
	}}
	c.see = func(ctx context.Context, s *side) (tree, error) { return s.seen(ctx, s) }
	return c
}

// inShort makes a case part of the short form.
func inShort(c *testCase) *testCase {
	c.short = true
	return c
}

// byItself lets a case run when all others have ended.
func byItself(c *testCase) *testCase {
	c.alone = true
	return c
}

// actions returns all actions.
func actions() []*testCase {
	return slices.Concat(streamActions(), changeActions(), deletionActions(), controllerActions(), customActions(),
		jobActions(), readActions())
}

// newPod returns a pod of the test image with one container.
func newPod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{newContainer("main", args...)}},
	}
}

func newContainer(name string, args ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullNever, Args: args,
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("16Mi"),
		}},
	}
}

// withData gives a pod's containers a volume at /data.
func withData(pod *corev1.Pod) *corev1.Pod {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
	return pod
}

// probed gives a pod's first container a readiness probe.
func probed(spec *corev1.PodSpec) {
	spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)},
		},
		PeriodSeconds: 1,
	}
}

const (
	isReady = `{.status.conditions[?(@.type=="Ready")].status}=True`
	running = "{.status.phase}=Running"
)

// start creates a pod and waits until it is ready.
func (s *side) start(ctx context.Context, pod *corev1.Pod) error {
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.reach(ctx, pod.Name, running, isReady)
}

// finish creates a pod and waits until it has succeeded.
func (s *side) finish(ctx context.Context, pod *corev1.Pod) error {
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	return s.reach(ctx, pod.Name, "{.status.phase}=Succeeded")
}

// noteStatus notes the essence of the status of the pod that is called pod.
func (s *side) noteStatus(ctx context.Context, key string) error {
	pod, err := s.pod(ctx, "pod")
	if err != nil {
		return err
	}
	t := tree{"phase": string(pod.Status.Phase), "reason": pod.Status.Reason}
	for _, c := range slices.Concat(
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		t["restarts of "+c.Name] = fmt.Sprint(c.RestartCount)
		t["state of "+c.Name] = stateOf(c.State)
		t["last state of "+c.Name] = stateOf(c.LastTerminationState)
		t["ready "+c.Name] = fmt.Sprint(c.Ready)
	}
	for _, c := range pod.Status.Conditions {
		t["condition "+string(c.Type)] = string(c.Status) + " " + c.Reason
	}
	s.note(key, t)
	return nil
}

func stateOf(state corev1.ContainerState) string {
	switch {
	case state.Running != nil:
		return "running"
	case state.Waiting != nil:
		return "waiting: " + state.Waiting.Reason
	case state.Terminated != nil:
		return fmt.Sprintf("terminated: %s %d", state.Terminated.Reason, state.Terminated.ExitCode)
	}
	return "none"
}
