package main

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestThePathOfEachNewerFieldFindsIt(t *testing.T) {
	for _, field := range newerFields() {
		pod := newPod("pod")
		if has, err := hasField(pod, field.path); has || err != nil {
			t.Errorf("%s: a pod without the field has it: %t, %v", field.name, has, err)
		}
		field.set(&pod.Spec)
		if has, err := hasField(pod, field.path); !has || err != nil {
			t.Errorf("%s: a pod with the field has it: %t, %v", field.name, has, err)
		}
		pod.Spec = corev1.PodSpec{Containers: []corev1.Container{{}}}
		if has, err := hasField(pod, field.path); has || err != nil {
			t.Errorf("%s: an empty pod has it: %t, %v", field.name, has, err)
		}
	}
}

func TestRunsOfBothDirectionsAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "skew.json")
	cases := []*testCase{{name: "a"}, {name: "b"}, {name: "not run"}}
	fields := func(outcome string) map[string]string {
		all := map[string]string{}
		for _, field := range newerFields() {
			all[field.name] = outcome
		}
		return all
	}
	for _, run := range []skewRun{
		{recordsOf([]result{{testCase: cases[0]}}, "v1.36.3", "v1.37.1"), fields("earlier run")},
		{recordsOf([]result{{testCase: cases[0]}}, "v1.36.3", "v1.37.1"), fields(droppedBySource)},
		{recordsOf([]result{
			{testCase: cases[0]}, {testCase: cases[1], found: []difference{{Field: "x"}}},
		}, "v1.37.1", "v1.36.3"), fields(shownAsDropped)},
	} {
		runs, err := readSkew(file)
		if err != nil {
			t.Fatal(err)
		}
		runs.add(run)
		if err := runs.write(file); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := readSkew(file)
	if err != nil {
		t.Fatal(err)
	}
	text := runs.text(cases, nil)
	for _, line := range []string{
		"| v1.37.1 | v1.36.3 | 2 | 1 | `b`: **not explained** |\n| v1.36.3 | v1.37.1 | 1 | 1 |  |",
		"| field of pods | since | source v1.37.1, target v1.36.3 | source v1.36.3, target v1.37.1 |",
		"| `volumes.emptyDir.mode` | 1.37, alpha: enabled in this run | " + shownAsDropped + " | " +
			droppedBySource + " |",
	} {
		if strings.Count(text, line) != 1 {
			t.Errorf("%q is not in the report once:\n%s", line, text)
		}
	}
}

func TestASwallowedFieldFailsTheRun(t *testing.T) {
	outcomes := map[string]string{}
	for _, field := range newerFields() {
		outcomes[field.name] = shownAsDropped
	}
	if err := decideSkew(outcomes); err != nil {
		t.Error(err)
	}
	outcomes["volumes.emptyDir.mode"] = swallowed
	if err := decideSkew(outcomes); err == nil || !strings.Contains(err.Error(), "volumes.emptyDir.mode") {
		t.Errorf("the error is %v", err)
	}
}
