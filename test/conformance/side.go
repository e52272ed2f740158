package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// side is one of the two runs of a case.
type side struct {
	c *cluster
	// runs is the cluster in which the pods run.
	runs      *cluster
	namespace string
	elected   bool
	// node is the node of the pods, as users see it.
	node   string
	normal *normaliser

	mu    sync.Mutex // guards notes
	notes tree
}

// note notes a text or a tree to compare.
func (s *side) note(key string, value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes[key] = value
}

// seen returns what was noted.
func (s *side) seen(context.Context, *side) (tree, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.notes), nil
}

// createAny creates an object of any kind in the namespace. Its pods are elected if this side's are. Resource claims
// and their templates follow no pod, so they are created where the pods run, and the templates in the source, too.
func (s *side) createAny(ctx context.Context, object *unstructured.Unstructured) error {
	object.SetNamespace(s.namespace)
	if strings.HasPrefix(object.GetKind(), "ResourceClaim") && s.elected {
		if err := s.runs.Create(ctx, object.DeepCopy()); err != nil || object.GetKind() == "ResourceClaim" {
			return err
		}
	}
	if s.elected {
		if err := elect(object); err != nil {
			return err
		}
	}
	return s.c.Create(ctx, object)
}

// create creates an object in the namespace, and fills it with the result.
func (s *side) create(ctx context.Context, object client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return fmt.Errorf("converting %T: %w", object, err)
	}
	untyped := &unstructured.Unstructured{Object: content}
	kinds, _, err := s.c.Scheme().ObjectKinds(object)
	if err != nil {
		return fmt.Errorf("finding the kind of %T: %w", object, err)
	}
	untyped.SetGroupVersionKind(kinds[0])
	if err := s.createAny(ctx, untyped); err != nil {
		return fmt.Errorf("creating %s %s: %w", kinds[0].Kind, object.GetName(), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, object); err != nil {
		return fmt.Errorf("converting %T: %w", object, err)
	}
	return nil
}

// elect gives the annotation to a pod, or to the template of pods.
func elect(object *unstructured.Unstructured) error {
	var at []string
	switch object.GetKind() {
	case "Pod":
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job":
		at = []string{"spec", "template"}
	case "CronJob":
		at = []string{"spec", "jobTemplate", "spec", "template"}
	default:
		return nil
	}
	at = append(at, "metadata", "annotations")
	annotations, _, err := unstructured.NestedStringMap(object.Object, at...)
	if err != nil {
		return fmt.Errorf("reading annotations: %w", err)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationElect] = ""
	if err := unstructured.SetNestedStringMap(object.Object, annotations, at...); err != nil {
		return fmt.Errorf("setting annotations: %w", err)
	}
	return nil
}

func (s *side) get(ctx context.Context, name string, object client.Object) error {
	return s.c.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: name}, object)
}

func (s *side) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := s.get(ctx, name, pod); err != nil {
		return nil, fmt.Errorf("getting pod %s: %w", name, err)
	}
	return pod, s.ofSide(pod)
}

// ofSide returns an error if the pod is plain and should be elected, or the other way round. Otherwise a suite without
// the product would find no differences.
func (s *side) ofSide(pod *corev1.Pod) error {
	if isProxy := pod.Spec.SchedulerName == v1alpha1.SchedulerName; isProxy != s.elected {
		return fmt.Errorf("pod %s is a proxy: %t, and should be: %t", pod.Name, isProxy, s.elected)
	}
	return nil
}

// await waits until check returns nil.
func (s *side) await(ctx context.Context, what string, check func(context.Context) error) error {
	if err := until(ctx, patience, check); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// reach waits until the pod has the values: {.status.phase}=Running.
func (s *side) reach(ctx context.Context, name string, values ...string) error {
	return s.reachObject(ctx, &corev1.Pod{}, name, values...)
}

// reachObject waits until an object of the namespace has the values.
func (s *side) reachObject(ctx context.Context, object client.Object, name string, values ...string) error {
	return s.await(ctx, name+" to be as wanted", func(ctx context.Context) error {
		if err := s.get(ctx, name, object); err != nil {
			return err
		}
		return hasAll(object, values)
	})
}

// hasAll returns an error unless the object has all the values.
func hasAll(object any, values []string) error {
	t, err := treeOf(object)
	if err != nil {
		return err
	}
	for _, value := range values {
		path, want, found := cut(value)
		if !found {
			return fmt.Errorf("%q has no value", value)
		}
		got, err := find(t, path)
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s is %q, not %q; the status is %v", path, got, want, t["status"])
		}
	}
	return nil
}

// cut splits "{PATH}=VALUE". A path may contain "=", but no value "}=".
func cut(text string) (path, value string, found bool) {
	at := strings.LastIndex(text, "}=")
	if at < 0 {
		return "", "", false
	}
	return text[:at+1], text[at+2:], true
}

func find(t tree, path string) (string, error) {
	parser := jsonpath.New("value").AllowMissingKeys(true)
	if err := parser.Parse(path); err != nil {
		return "", fmt.Errorf("parsing %s: %w", path, err)
	}
	out := &bytes.Buffer{}
	if err := parser.Execute(out, t); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return out.String(), nil
}

// kubectl runs kubectl in the namespace, as a user of c1 does.
func (s *side) kubectl(ctx context.Context, args ...string) (string, error) {
	return s.kubectlWith(ctx, nil, args...)
}

func (s *side) kubectlWith(ctx context.Context, in io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return kubectl(ctx, in, append([]string{"--context", s.c.name, "--namespace", s.namespace}, args...)...)
}

// try runs kubectl and notes what it prints, and whether it failed.
func (s *side) try(ctx context.Context, key string, args ...string) string {
	out, err := s.kubectl(ctx, args...)
	s.noteOutput(key, out, err)
	return out
}

func (s *side) noteOutput(key, out string, err error) {
	t := tree{"prints": out}
	var exited interface{ ExitCode() int }
	switch {
	case errors.As(err, &exited):
		t["exit code"] = exited.ExitCode()
	case err != nil:
		t["error"] = err.Error()
	}
	s.note(key, t)
}
