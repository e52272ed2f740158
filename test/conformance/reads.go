package main

import (
	"context"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// readActions read pods.
func readActions() []*testCase {
	const topic = "kubectl get, describe, wait, watch"
	return []*testCase{
		inShort(action(topic, "get-wide", "the columns of a pod", columns)),
		inShort(action(topic, "describe", "the lines of a description, without those of events", describe)),
		action(topic, "wait-condition", "a wait for a condition", waitFor("--for=condition=Ready")),
		action(topic, "wait-jsonpath", "a wait for a field", waitFor("--for=jsonpath={.status.phase}=Running")),
		action(topic, "wait-delete", "a wait for the deletion", waitForDeletion),
		action(topic, "watch", "the phases that a watch shows", watchPhases),
		action(topic, "field-selector-phase", "pods of a phase", selectBy("status.phase=Running")),
		action(topic, "field-selector-node", "pods of a node", selectByNode),
		action(topic, "events", "events of a pod by kubectl events", eventsOf),
	}
}

// lines returns a text as a tree of its lines, which are compared one by one.
func lines(text string) tree {
	t := tree{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		t[key] = value
	}
	return t
}

var spaces = regexp.MustCompile(`\s{2,}`)

// columns leaves out the age, the address and the node.
func columns(ctx context.Context, s *side) error {
	pod := newPod("pod")
	pod.Spec.Containers = append(pod.Spec.Containers, newContainer("other", "sleep", "infinity"))
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	out, err := s.kubectl(ctx, "get", "pod", "pod", "-o", "wide")
	if err != nil {
		return err
	}
	rows := strings.Split(strings.TrimSpace(out), "\n")
	names, values := spaces.Split(rows[0], -1), spaces.Split(rows[len(rows)-1], -1)
	for i, name := range names {
		if name != "AGE" && name != "IP" && i < len(values) {
			s.note(name, strings.TrimSpace(values[i]))
		}
	}
	s.normal.add(s.node, "NODE")
	return nil
}

// describe compares which lines there are, and their values if they do not tell of times.
func describe(ctx context.Context, s *side) error {
	pod := newPod("pod")
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	pod, err := s.pod(ctx, "pod")
	if err != nil {
		return err
	}
	s.normal.knows(pod)
	out, err := s.kubectl(ctx, "describe", "pod", "pod", "--show-events=false")
	if err != nil {
		return err
	}
	t := tree{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		if key == "Start Time" || key == "Started" {
			value = "TIME"
		}
		t[key] = value
	}
	s.note("lines", t)
	return nil
}

func waitFor(what string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.create(ctx, newPod("pod")); err != nil {
			return err
		}
		s.try(ctx, "wait", "wait", "pod/pod", what, "--timeout=2m")
		return nil
	}
}

func waitForDeletion(ctx context.Context, s *side) error {
	if err := s.start(ctx, newPod("pod")); err != nil {
		return err
	}
	s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
	s.try(ctx, "wait", "wait", "pod/pod", "--for=delete", "--timeout=2m")
	return nil
}

// watchPhases notes the phases of a pod from its creation to its deletion, in their order.
func watchPhases(ctx context.Context, s *side) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := s.c.Watch(ctx, &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		return err
	}
	defer events.Stop()
	pod := newPod("pod", "sleep", "2s")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if err := s.create(ctx, pod); err != nil {
		return err
	}
	var phases []string
	for event := range events.ResultChan() {
		seen, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		if phase := string(seen.Status.Phase); len(phases) == 0 || phases[len(phases)-1] != phase {
			phases = append(phases, phase)
		}
		if seen.Status.Phase == corev1.PodSucceeded && seen.DeletionTimestamp == nil {
			s.try(ctx, "delete", "delete", "pod", "pod", "--wait=false")
		}
		if event.Type == "DELETED" {
			s.note("phases", strings.Join(phases, " "))
			return nil
		}
	}
	return ctx.Err()
}

func selectBy(selector string) func(context.Context, *side) error {
	return func(ctx context.Context, s *side) error {
		if err := s.start(ctx, newPod("runs")); err != nil {
			return err
		}
		ended := newPod("ended", "print", "done")
		ended.Spec.RestartPolicy = corev1.RestartPolicyNever
		if err := s.finish(ctx, ended); err != nil {
			return err
		}
		s.try(ctx, "get", "get", "pods", "--field-selector="+selector, "-o", "name")
		return nil
	}
}

func selectByNode(ctx context.Context, s *side) error {
	return selectBy("spec.nodeName="+s.node)(ctx, s)
}

// eventsOf notes the reasons of a pod's events.
func eventsOf(ctx context.Context, s *side) error {
	pod := newPod("pod")
	if err := s.start(ctx, pod); err != nil {
		return err
	}
	out, err := s.kubectl(ctx, "events", "--for=pod/pod", "--no-headers")
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); len(fields) > 2 {
			s.note(fields[2], fields[1])
		}
	}
	return nil
}
