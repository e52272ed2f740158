package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// customActions do to pods what custom controllers do.
func customActions() []*testCase {
	const custom = "Custom controllers"
	return []*testCase{
		inShort(action(custom, "custom-owner-foreground", "an owner is deleted in the foreground: its pod goes first",
			deleteOwner("foreground"))),
		action(custom, "custom-owner-background", "an owner is deleted in the background",
			deleteOwner("background")),
		action(custom, "custom-owner-orphan", "an owner is deleted, and leaves its pod", deleteOwner("orphan")),
		action(custom, "custom-finalizer", "a controller holds pods that have ended until it has counted them",
			countFinished),
		action(custom, "custom-condition", "a controller writes a condition of its own", ownCondition),
	}
}

// deleteOwner deletes the object that owns a pod, as those of custom controllers do.
func deleteOwner(how string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "crew"}}
		if err := s.create(ctx, owner); err != nil {
			return err
		}
		pod := newPod("pod", "sleep", "infinity")
		pod.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap")),
		}
		if err := s.start(ctx, pod); err != nil {
			return err
		}
		s.try(ctx, "delete", "delete", "configmap", "crew", "--cascade="+how, "--timeout=2m")
		if how == "orphan" {
			return s.reach(ctx, "pod", "{.metadata.ownerReferences}=", "{.metadata.deletionTimestamp}=", isReady)
		}
		if how == "foreground" {
			s.try(ctx, "get", "get", "pod", "pod")
		}
		return s.gone(ctx, pod)
	}
}

// countFinished does as the Job controller does, and those that are modelled on it.
func countFinished(ctx context.Context, s *side) error {
	pod := newPod("pod", "exit", "5")
	pod.Finalizers = []string{"example.com/uncounted"}
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	ended := []string{"{.status.phase}=Failed", "{.status.containerStatuses[0].state.terminated.exitCode}=5"}
	if err := s.reach(ctx, "pod", ended...); err != nil {
		return err
	}
	s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
	if err := s.reach(ctx, "pod", ended...); err != nil {
		return err
	}
	if err := s.noteStatus(ctx, "uncounted"); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "-p", `{"metadata":{"finalizers":null}}`)
	return s.gone(ctx, pod)
}

// ownCondition writes a condition that no readiness gate names, and has the kubelet write the status after it.
func ownCondition(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "patch", "patch", "pod", "pod", "--subresource=status", "-p",
		`{"status":{"conditions":[{"type":"example.com/counted","status":"True","reason":"Counted"}]}}`)
	_, _ = s.kubectl(ctx, "exec", "pod", "--", program, "kill", "1")
	if err := s.reach(ctx, "pod", "{.status.containerStatuses[0].restartCount}=1", isReady,
		`{.status.conditions[?(@.type=="example.com/counted")].reason}=Counted`); err != nil {
		return err
	}
	return s.noteStatus(ctx, "after")
}
