package admission

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kjson "sigs.k8s.io/json"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/patch"
)

// proxyOperations returns the operations that make the pod, as decoded from raw, the proxy. They cover the fields that
// translate.Proxy changes. The annotations exist, because the pod is elected.
func proxyOperations(raw []byte, pod, proxy *corev1.Pod) ([]patch.Operation, error) {
	const key = v1alpha1.AnnotationOriginalConstraints
	was, is := &pod.Spec, &proxy.Spec
	fields := []struct {
		path    string
		was, is any
		remove  bool
	}{
		{path: patch.Pointer("metadata", "annotations", key), was: pod.Annotations[key], is: proxy.Annotations[key]},
		{path: "/spec/schedulerName", was: was.SchedulerName, is: is.SchedulerName},
		{path: "/spec/nodeSelector", was: was.NodeSelector, is: is.NodeSelector},
		{path: "/spec/affinity", was: was.Affinity, is: is.Affinity, remove: is.Affinity == nil},
		{
			path:   "/spec/topologySpreadConstraints",
			was:    was.TopologySpreadConstraints,
			is:     is.TopologySpreadConstraints,
			remove: len(is.TopologySpreadConstraints) == 0,
		},
		{
			path: "/spec/terminationGracePeriodSeconds",
			was:  was.TerminationGracePeriodSeconds, is: is.TerminationGracePeriodSeconds,
		},
	}
	var operations []patch.Operation
	for _, key := range []string{v1alpha1.AnnotationFencedAfter, v1alpha1.AnnotationFromTarget} {
		if _, copied := pod.Annotations[key]; copied {
			operations = append(operations, patch.Remove(patch.Pointer("metadata", "annotations", key)))
		}
	}
	for _, f := range fields {
		switch {
		case equality.Semantic.DeepEqual(f.was, f.is):
		case f.remove:
			operations = append(operations, patch.Remove(f.path))
		default: // adding replaces what is there
			operations = append(operations, patch.Add(f.path, f.is))
		}
	}
	if equality.Semantic.DeepEqual(was.Tolerations, is.Tolerations) {
		return operations, nil
	}
	tolerations, err := mixedTolerations(raw, was.Tolerations, is.Tolerations)
	return append(operations, patch.Add("/spec/tolerations", tolerations)), err
}

// mixedTolerations returns the proxy's tolerations: those that the pod has already as they are in raw, with all their
// fields.
func mixedTolerations(raw []byte, was, is []corev1.Toleration) ([]any, error) {
	var pod struct {
		Spec struct {
			Tolerations []json.RawMessage `json:"tolerations"`
		} `json:"spec"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &pod); err != nil {
		return nil, fmt.Errorf("decoding tolerations: %w", err)
	}
	mixed := make([]any, len(is))
	for i := range is {
		mixed[i] = is[i]
		for j := range was {
			if equality.Semantic.DeepEqual(is[i], was[j]) {
				mixed[i] = pod.Spec.Tolerations[j]
				break
			}
		}
	}
	return mixed, nil
}
