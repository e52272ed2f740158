package main

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// logsOf prints a pod of two containers that have ended.
func logsOf(args ...string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.finishTwo(ctx); err != nil {
			return err
		}
		s.try(ctx, "logs", append([]string{"logs", "pod"}, args...)...)
		return nil
	}
}

// logsOfAll prints both containers. kubectl prints them in any order.
func logsOfAll(ctx context.Context, s *side) error {
	if err := s.finishTwo(ctx); err != nil {
		return err
	}
	return s.logsSorted(ctx, "pod", "--all-containers", "--prefix")
}

// finishTwo runs a pod of two containers until both have ended.
func (s *side) finishTwo(ctx context.Context) error {
	pod := newPod("pod", "print", "line one\nline two")
	pod.Spec.Containers = append(pod.Spec.Containers, newContainer("other", "print", "another"))
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	return s.finish(ctx, pod)
}

func (s *side) logsSorted(ctx context.Context, args ...string) error {
	out, err := s.kubectl(ctx, append([]string{"logs"}, args...)...)
	sorted := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(sorted)
	s.note("logs", strings.Join(sorted, "\n"))
	return err
}

func logsBy(ctx context.Context, s *side) error {
	for _, name := range []string{"a", "b"} {
		pod := newPod(name, "print", "I am "+name)
		pod.Labels = map[string]string{"app": "web"}
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		if err := s.finish(ctx, pod); err != nil {
			return err
		}
	}
	return s.logsSorted(ctx, "-l", "app=web", "--prefix") // kubectl prints the pods in any order.
}

func logsPrevious(ctx context.Context, s *side) error {
	pod := withData(newPod("pod", "fail", "/data/runs", "1", "3"))
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	if err := s.reach(ctx, "pod", "{.status.containerStatuses[0].restartCount}=1", isReady); err != nil {
		return err
	}
	s.try(ctx, "previous", "logs", "pod", "--previous")
	s.try(ctx, "current", "logs", "pod")
	return nil
}

// logsFollow follows a pod that runs. Of one that has no node yet, API servers send no logs, and no error.
func logsFollow(ctx context.Context, s *side) error {
	pod := newPod("pod", "sleep", "10s", "--exit=4")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	s.try(ctx, "logs", "logs", "-f", "pod")
	return s.reach(ctx, "pod", "{.status.phase}=Failed")
}
