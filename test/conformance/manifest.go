package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

//go:embed manifests/*.yaml
var manifestFiles embed.FS

// header is the first document of a manifest's file.
type header struct {
	Topic string `json:"topic"`
	What  string `json:"what"`
	// Until has JSONPath expressions of the pod and their values: {.status.phase}=Running.
	Until []string `json:"until"`
	// Inside has the commands of the test image to run in containers, by container.
	Inside map[string][]string `json:"inside"`
	// Unseen are fields that differ from run to run, of plain pods, too: numbers of restarts, say.
	Unseen []string `json:"unseen"`
	Short  bool     `json:"short"`
	// Containerd2 says that nodes need containerd 2.
	Containerd2 bool `json:"containerd2"`
}

// manifest is a pod, with the objects that it needs.
type manifest struct {
	header
	objects []*unstructured.Unstructured
	pod     *unstructured.Unstructured
}

// manifests reads the folder of manifests.
func manifests() ([]*testCase, error) {
	files, err := manifestFiles.ReadDir("manifests")
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	var cases []*testCase
	for _, file := range files {
		content, err := manifestFiles.ReadFile(path.Join("manifests", file.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		m, err := parse(string(content))
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file.Name(), err)
		}
		cases = append(cases, m.testCase(strings.TrimSuffix(file.Name(), ".yaml")))
	}
	return cases, nil
}

// parse reads the file of a manifest.
func parse(content string) (*manifest, error) {
	documents := strings.Split(content, "\n---\n")
	m := &manifest{}
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &m.header); err != nil {
		return nil, fmt.Errorf("decoding the header: %w", err)
	}
	for i, document := range documents[1:] {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("decoding object %d: %w", i, err)
		}
		switch {
		case object.GetKind() != "Pod":
			m.objects = append(m.objects, object)
		case m.pod != nil:
			return nil, errors.New("it has two pods")
		default:
			m.pod = object
		}
	}
	if m.pod == nil || m.Topic == "" || m.What == "" {
		return nil, errors.New("it lacks a pod, a topic or a description")
	}
	if len(m.Until) == 0 {
		m.Until = []string{"{.status.phase}=Running", `{.status.conditions[?(@.type=="Ready")].status}=True`}
	}
	return m, nil
}

func (m *manifest) testCase(name string) *testCase {
	used := map[string]bool{}
	fields("spec", m.pod.Object["spec"], used)
	return &testCase{
		name: name, topic: m.Topic, what: m.What, short: m.Short, containerd2: m.Containerd2,
		fields: slices.Sorted(maps.Keys(used)), begin: m.begin, see: m.see,
	}
}

// begin creates the objects and the pod, and waits for the pod.
func (m *manifest) begin(ctx context.Context, s *side) error {
	for _, object := range m.objects {
		if err := s.createAny(ctx, object.DeepCopy()); err != nil {
			return err
		}
	}
	pod := m.pod.DeepCopy()
	err := s.createAny(ctx, pod)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		s.note("refused", err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	return s.reach(ctx, pod.GetName(), m.Until...)
}

// see looks at the pod.
func (m *manifest) see(ctx context.Context, s *side) (tree, error) {
	seen := maps.Clone(s.notes)
	if seen["refused"] != nil {
		return seen, nil
	}
	pod, err := s.pod(ctx, m.pod.GetName())
	if err != nil {
		return nil, err
	}
	s.normal.knows(pod)
	if err := s.look(ctx, pod, m.Inside, seen); err != nil {
		return nil, err
	}
	for _, field := range m.Unseen {
		remove(seen, strings.Split(field, "/"))
	}
	return seen, nil
}

// remove removes a field from a tree. Names of fields stand for elements of lists that have this name.
func remove(value any, field []string) {
	switch v := value.(type) {
	case tree:
		if len(field) == 1 {
			delete(v, field[0])
			return
		}
		remove(v[field[0]], field[1:])
	case []any:
		for _, child := range v {
			if element, ok := child.(tree); ok && (element["name"] == field[0] || element["type"] == field[0]) {
				remove(element, field[1:])
			}
		}
	}
}
