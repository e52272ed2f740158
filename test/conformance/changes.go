package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// changeActions are those that change a pod that exists.
func changeActions() []*testCase {
	const metadata, spec, state = "kubectl label, annotate", "kubectl set, patch, debug", "Readiness and restarts"
	return []*testCase{
		inShort(action(metadata, "label-add", "a label is added: files inside follow",
			metadataChange("labels", "label", "tier=back"))),
		action(metadata, "label-change", "a label is changed",
			metadataChange("labels", "label", "app=other", "--overwrite")),
		action(metadata, "label-remove", "a label is removed", metadataChange("labels", "label", "app-")),
		action(metadata, "annotate-add", "an annotation is added: files inside follow",
			metadataChange("note", "annotate", "example.com/note=new")),
		action(metadata, "annotate-change", "an annotation is changed",
			metadataChange("note", "annotate", "example.com/old=new", "--overwrite")),
		action(metadata, "annotate-remove", "an annotation is removed",
			metadataChange("note", "annotate", "example.com/old-")),
		inShort(action(spec, "set-image", "the image changes: the container is restarted", setImage)),
		action(spec, "patch-tolerations", "a toleration is added", patched(
			`[{"op":"add","path":"/spec/tolerations/-","value":{"key":"example.com/a","operator":"Exists"}}]`)),
		action(spec, "patch-immutable", "a field that cannot change", patched(
			`[{"op":"add","path":"/spec/hostNetwork","value":true}]`)),
		action(spec, "patch-deadline", "a deadline for a pod that runs", patchDeadline),
		action(spec, "remove-gate", "a scheduling gate is removed", removeGate),
		inShort(action(spec, "debug", "an ephemeral container", debug)),
		action(spec, "debug-terminal", "an ephemeral container with -it, in a terminal whose size changes",
			debugInTerminal),
		action(spec, "debug-target", "an ephemeral container that sees another one's processes", debugTarget),
		inShort(action(spec, "resize-cpu", "a resize of CPU, without a restart", resize(
			`{"requests":{"cpu":"20m"},"limits":{"cpu":"200m"}}`, "0"))),
		action(spec, "resize-memory-restarts", "a resize of memory, with a restart", resize(
			`{"requests":{"memory":"24Mi"},"limits":{"memory":"96Mi"}}`, "1")),
		action(spec, "resize-of-pod", "a resize of the resources that all containers have together", resizeOfPod),
		action(spec, "resize-infeasible", "a resize to more than a node has", resizeTooFar),
		action(state, "readiness-gate-satisfied", "a readiness gate is satisfied", satisfyGate),
		inShort(action(state, "kill-process", "the process of a container ends: restarts are counted", killProcess)),
		action(state, "readiness-changes", "a pod becomes ready when its probe succeeds", becomeReady),
		action(state, "config-map-changes", "a ConfigMap changes: files inside follow", changeConfigMap),
		action(state, "secret-changes", "a Secret changes: files inside follow", changeSecret),
	}
}

// metadataChange changes labels or annotations of a pod that shows them in a file.
func metadataChange(file, verb string, args ...string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		pod := newPod("pod")
		pod.Annotations = map[string]string{"example.com/old": "old"}
		field := func(path, of string) corev1.DownwardAPIVolumeFile {
			return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: of}}
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "pod", VolumeSource: corev1.VolumeSource{
			DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				field("labels", "metadata.labels"), field("note", "metadata.annotations"),
			}},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "pod", MountPath: "/pod"}}
		if err := s.start(ctx, pod); err != nil {
			return err
		}
		read := []string{"exec", "pod", "--", program, "cat", "/pod/" + file}
		before, err := s.kubectl(ctx, read...)
		if err != nil {
			return err
		}
		s.try(ctx, verb, append([]string{verb, "pod", "pod"}, args...)...)
		return s.await(ctx, "the file to change", func(ctx context.Context) error {
			after, err := s.kubectl(ctx, read...)
			s.note("file", lines(after))
			if err == nil && after == before {
				return fmt.Errorf("the file still is %q", after)
			}
			return err
		})
	}
}

func setImage(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "set", "set", "image", "pod/pod", "main=localhost/missing:dev")
	if err := s.reach(ctx, "pod", "{.status.containerStatuses[0].state.waiting.reason}=ErrImageNeverPull"); err != nil {
		return err
	}
	if err := s.noteStatus(ctx, "missing"); err != nil {
		return err
	}
	s.try(ctx, "back", "set", "image", "pod/pod", "main="+image)
	if err := s.reach(ctx, "pod", "{.status.containerStatuses[0].restartCount}=1", isReady); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

// patched applies a JSON patch to a running pod.
func patched(patch string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.start(ctx, newPod("pod")); err != nil {
			return err
		}
		out, err := s.kubectl(ctx, "patch", "pod", "pod", "--type=json", "-p", patch)
		out, _, _ = strings.Cut(out, "@@") // A diff of the specs follows.
		s.note("patch", tree{"prints": out, "fails": err != nil})
		pod, err := s.pod(ctx, "pod")
		if err != nil {
			return err
		}
		err = s.reach(ctx, "pod", fmt.Sprintf("{.status.observedGeneration}=%d", pod.Generation), isReady)
		if err != nil {
			return err
		}
		return s.noteStatus(ctx, "after")
	}
}

func patchDeadline(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "-p", `{"spec":{"activeDeadlineSeconds":1}}`)
	if err := s.reach(ctx, "pod", "{.status.phase}=Failed"); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func removeGate(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	gated := `{.status.conditions[?(@.type=="PodScheduled")].reason}=SchedulingGated`
	if err := s.reach(ctx, "pod", gated); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "--type=json", "-p", `[{"op":"remove","path":"/spec/schedulingGates"}]`)
	if err := s.reach(ctx, "pod", running, isReady); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func debug(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "debug", "debug", "pod", "--image="+image, "--image-pull-policy=Never", "-c", "debugger", "--",
		program, "get", "http://127.0.0.1:8080/")
	if err := s.reach(ctx, "pod", "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0"); err != nil {
		return err
	}
	s.try(ctx, "logs", "logs", "pod", "-c", "debugger")
	return s.noteStatus(ctx, "after")
}

func debugInTerminal(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	if err := s.inTerminal(ctx, "debug", "-it", "pod", "--image="+image, "--image-pull-policy=Never", "-c", "debugger",
		"--", program, "terminal"); err != nil {
		return err
	}
	if err := s.reach(ctx, "pod", "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0"); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func debugTarget(ctx context.Context, s *side) error {
	pod := withData(newPod("pod"))
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "debug", "debug", "pod", "--image="+image, "--image-pull-policy=Never", "-c", "debugger",
		"--target=main", "--", program, "cat", "/proc/1/cmdline")
	if err := s.reach(ctx, "pod", "{.status.ephemeralContainerStatuses[0].state.terminated.exitCode}=0"); err != nil {
		return err
	}
	s.try(ctx, "logs", "logs", "pod", "-c", "debugger")
	return nil
}

func resizable() *corev1.Pod {
	pod := newPod("pod")
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
	}
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
		{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
	}
	return pod
}

// resize changes the resources of a running pod, whose container is restarted so many times.
func resize(resources, restarts string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.start(ctx, resizable()); err != nil {
			return err
		}
		s.try(ctx, "resize", "patch", "pod", "pod", "--subresource=resize", "-p",
			`{"spec":{"containers":[{"name":"main","resources":`+resources+`}]}}`)
		if err := s.resized(ctx, restarts); err != nil {
			return err
		}
		return s.await(ctx, "the resources to be in the status", func(ctx context.Context) error {
			pod, err := s.pod(ctx, "pod")
			if err != nil {
				return err
			}
			status := pod.Status.ContainerStatuses[0]
			t, err := treeOf(status.Resources)
			s.note("resources", t)
			if !sameLimits(status.Resources, pod.Spec.Containers[0].Resources.Limits) {
				return fmt.Errorf("they are %v", status.Resources)
			}
			return err
		})
	}
}

// resized waits until a resize of the pod that is called pod has ended.
func (s *side) resized(ctx context.Context, restarts string) error {
	return s.reach(ctx, "pod", "{.status.observedGeneration}=2", isReady,
		`{.status.conditions[?(@.type=="PodResizeInProgress")].status}=`,
		"{.status.containerStatuses[0].restartCount}="+restarts)
}

func sameLimits(shown *corev1.ResourceRequirements, want corev1.ResourceList) bool {
	return shown != nil && shown.Limits.Cpu().Equal(*want.Cpu()) && shown.Limits.Memory().Equal(*want.Memory())
}

// resizeOfPod resizes resources of the pod, which its container shares. It notes no requests that are in effect: a
// kubelet reads them from the cgroup, which rounds them.
func resizeOfPod(ctx context.Context, s *side) error {
	pod := newPod("pod")
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}
	}
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("20m", "32Mi"), Limits: amounts("100m", "64Mi")}
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "resize", "patch", "pod", "pod", "--subresource=resize", "-p",
		`{"spec":{"resources":{"requests":{"cpu":"40m"},"limits":{"cpu":"200m","memory":"96Mi"}}}}`)
	if err := s.resized(ctx, "0"); err != nil {
		return err
	}
	return s.await(ctx, "the resources to be in the status", func(ctx context.Context) error {
		pod, err := s.pod(ctx, "pod")
		if err != nil {
			return err
		}
		shown := pod.Status.Resources
		if !sameLimits(shown, pod.Spec.Resources.Limits) {
			return fmt.Errorf("they are %v", shown)
		}
		t, err := treeOf(corev1.ResourceRequirements{Requests: pod.Status.AllocatedResources, Limits: shown.Limits})
		s.note("resources", t)
		return err
	})
}

func resizeTooFar(ctx context.Context, s *side) error {
	if err := s.start(ctx, resizable()); err != nil {
		return err
	}
	s.try(ctx, "resize", "patch", "pod", "pod", "--subresource=resize", "-p",
		`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"900"},"limits":{"cpu":"900"}}}]}}`)
	pod, err := s.pod(ctx, "pod")
	if err != nil {
		return err
	}
	if pod.Generation > 1 { // Since Kubernetes 1.37, API servers refuse such a resize.
		err := s.reach(ctx, "pod", `{.status.conditions[?(@.type=="PodResizePending")].reason}=Infeasible`)
		if err != nil {
			return err
		}
	}
	return s.noteStatus(ctx, "after")
}

func satisfyGate(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	containersReady := `{.status.conditions[?(@.type=="ContainersReady")].status}=True`
	if err := s.reach(ctx, "pod", running, containersReady); err != nil {
		return err
	}
	if err := s.noteStatus(ctx, "before"); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"example.com/gate","status":"True"}]}}`)
	if err := s.reach(ctx, "pod", isReady); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func killProcess(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	// The command may die with the container, so its exit code is up to chance.
	_, _ = s.kubectl(ctx, "exec", "pod", "--", program, "kill", "1")
	if err := s.reach(ctx, "pod", "{.status.containerStatuses[0].restartCount}=1", isReady); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func becomeReady(ctx context.Context, s *side) error {
	pod := withData(newPod("pod"))
	pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
		Exec: &corev1.ExecAction{Command: []string{program, "cat", "/data/ready"}},
	}}
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.reach(ctx, "pod", running, "{.status.containerStatuses[0].started}=true"); err != nil {
		return err
	}
	if err := s.noteStatus(ctx, "before"); err != nil {
		return err
	}
	s.try(ctx, "write", "exec", "pod", "--", program, "write", "/data/ready", "yes")
	if err := s.reach(ctx, "pod", isReady); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}

func changeConfigMap(ctx context.Context, s *side) error {
	settings := &corev1.ConfigMap{Data: map[string]string{"color": "blue"}}
	settings.Name = "settings"
	volume := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}
	volume.ConfigMap.Name = "settings"
	if err := s.create(ctx, settings); err != nil {
		return err
	}
	return s.fileFollows(ctx, volume, "configmap", `{"data":{"color":"red"}}`)
}

func changeSecret(ctx context.Context, s *side) error {
	settings := &corev1.Secret{Data: map[string][]byte{"color": []byte("blue")}}
	settings.Name = "settings"
	if err := s.create(ctx, settings); err != nil {
		return err
	}
	volume := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "settings"}}
	return s.fileFollows(ctx, volume, "secret", `{"stringData":{"color":"red"}}`)
}

// fileFollows changes an object that a pod has as files, and waits until the file changes.
func (s *side) fileFollows(ctx context.Context, volume corev1.VolumeSource, kind, patch string) error {
	pod := newPod("pod")
	pod.Spec.Volumes = []corev1.Volume{{Name: "settings", VolumeSource: volume}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "settings", MountPath: "/settings"}}
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "before", "exec", "pod", "--", program, "cat", "/settings/color")
	s.try(ctx, "patch", "patch", kind, "settings", "-p", patch)
	return s.await(ctx, "the file to change", func(ctx context.Context) error {
		out, err := s.kubectl(ctx, "exec", "pod", "--", program, "cat", "/settings/color")
		if err == nil && out != "red" {
			return fmt.Errorf("the file is %q", out)
		}
		return err
	})
}
