package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// program is the only program of the test image.
const program = "/whoami"

// look adds to seen all that users see of a pod.
func (s *side) look(ctx context.Context, pod *corev1.Pod, inside map[string][]string, seen tree) error {
	t, err := treeOf(pod)
	if err != nil {
		return err
	}
	seen["spec"], seen["status"] = t["spec"], t["status"]
	if metadata, ok := t["metadata"].(tree); ok {
		for _, key := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
			seen[key] = metadata[key]
			if metadata[key] == nil {
				seen[key] = tree{}
			}
		}
	}
	seen["logs"] = s.logs(ctx, pod)
	if len(inside) > 0 {
		seen["inside"] = s.inside(ctx, pod.Name, inside)
	}
	seen["events"], err = s.events(ctx, pod)
	return err
}

func (s *side) logs(ctx context.Context, pod *corev1.Pod) tree {
	logs := tree{}
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for _, status := range statuses {
			out, _ := s.kubectl(ctx, "logs", pod.Name, "-c", status.Name) // What fails is printed, too.
			logs[status.Name] = out
		}
	}
	return logs
}

// inside runs commands in containers.
func (s *side) inside(ctx context.Context, pod string, commands map[string][]string) tree {
	seen := tree{}
	for _, container := range slices.Sorted(maps.Keys(commands)) {
		for _, command := range commands[container] {
			args := append([]string{"exec", pod, "-c", container, "--", program}, strings.Fields(command)...)
			out, _ := s.kubectl(ctx, args...) // What fails is printed, too.
			lines := tree{}
			for i, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
				lines[fmt.Sprintf("line %02d", i+1)] = line
			}
			seen[container+": "+command] = lines
		}
	}
	return seen
}

// late matches what a busy kubelet says that has just got a pod, and has not yet read what the pod mounts.
var late = regexp.MustCompile(`failed to sync \w+ cache: timed out`)

// events returns the types of the pod's events, by reason, but for those that are up to chance.
func (s *side) events(ctx context.Context, pod *corev1.Pod) (tree, error) {
	list := &corev1.EventList{}
	if err := s.c.List(ctx, list, client.InNamespace(s.namespace),
		client.MatchingFields{"involvedObject.uid": string(pod.UID)}); err != nil {
		return nil, fmt.Errorf("listing the events of pod %s: %w", pod.Name, err)
	}
	events := tree{}
	for _, event := range list.Items {
		if !late.MatchString(event.Message) {
			events[event.Reason] = event.Type
		}
	}
	return events, nil
}
