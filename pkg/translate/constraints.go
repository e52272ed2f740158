package translate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// Constraints is the part of a pod's spec that says where the pod may run and which scheduler decides.
type Constraints struct {
	NodeSelector              map[string]string                 `json:"nodeSelector,omitempty"`
	Tolerations               []corev1.Toleration               `json:"tolerations,omitempty"`
	Affinity                  *corev1.Affinity                  `json:"affinity,omitempty"`
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`
	SchedulerName             string                            `json:"schedulerName,omitempty"`
}

// constraintsOf returns the constraints of the spec. They share its memory.
func constraintsOf(spec *corev1.PodSpec) Constraints {
	return Constraints{
		NodeSelector:              spec.NodeSelector,
		Tolerations:               spec.Tolerations,
		Affinity:                  spec.Affinity,
		TopologySpreadConstraints: spec.TopologySpreadConstraints,
		SchedulerName:             spec.SchedulerName,
	}
}

// replaceIn replaces the spec's constraints.
func (c Constraints) replaceIn(spec *corev1.PodSpec) {
	spec.NodeSelector = c.NodeSelector
	spec.Tolerations = c.Tolerations
	spec.Affinity = c.Affinity
	spec.TopologySpreadConstraints = c.TopologySpreadConstraints
	spec.SchedulerName = c.SchedulerName
}

// encode returns compact JSON for decodeConstraints.
func (c Constraints) encode() (string, error) {
	encoded, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encoding constraints: %w", err)
	}
	return string(encoded), nil
}

func decodeConstraints(encoded string) (Constraints, error) {
	var c Constraints
	if err := decodeStrictly([]byte(encoded), &c); err != nil {
		return Constraints{}, err
	}
	spec := corev1.PodSpec{Tolerations: c.Tolerations, TopologySpreadConstraints: c.TopologySpreadConstraints}
	if err := validateLength(nil, &spec); err != nil {
		return Constraints{}, err
	}
	return c, nil
}

// maxConstraints is how many tolerations or spread constraints a pod may have. Kubernetes compares each with each taint
// or node. API servers accept 100,000 tolerations, and no pod has a hundred.
const maxConstraints = 1000

func validateLength(path *field.Path, spec *corev1.PodSpec) *field.Error {
	if n := len(spec.Tolerations); n > maxConstraints {
		return field.TooMany(path.Child("tolerations"), n, maxConstraints)
	}
	if n := len(spec.TopologySpreadConstraints); n > maxConstraints {
		return field.TooMany(path.Child("topologySpreadConstraints"), n, maxConstraints)
	}
	return nil
}

// decodeStrictly returns an error that names each unknown field.
func decodeStrictly(encoded []byte, into any) error {
	if len(bytes.TrimSpace(encoded)) == 0 {
		return errors.New("must not be empty")
	}
	strict, err := kjson.UnmarshalStrict(encoded, into)
	if err != nil {
		return err
	}
	return utilerrors.NewAggregate(strict)
}

// with adds all that a pod's current constraints have beyond the expected ones. In a conflict with c, the current ones
// win. The scheduler's name stays.
func (c Constraints) with(current, expected Constraints) Constraints {
	c.NodeSelector = maps.Clone(c.NodeSelector)
	for k, v := range current.NodeSelector {
		if was, ok := expected.NodeSelector[k]; ok && was == v {
			continue
		}
		if c.NodeSelector == nil {
			c.NodeSelector = map[string]string{}
		}
		c.NodeSelector[k] = v
	}
	c.Tolerations = withAdded(c.Tolerations, current.Tolerations, expected.Tolerations)
	c.TopologySpreadConstraints = withAdded(c.TopologySpreadConstraints,
		current.TopologySpreadConstraints, expected.TopologySpreadConstraints)
	c.Affinity = affinityWithAdded(c.Affinity, current.Affinity, expected.Affinity)
	return c
}

// withAdded returns a list with those of the current items that it does not have, and that are not expected. The items
// are compared as JSON, because lists may be long.
func withAdded[T any](list, current, expected []T) []T {
	if len(current) == 0 {
		return list
	}
	has := make(map[string]bool, len(list)+len(expected))
	for _, items := range [][]T{list, expected} {
		for i := range items {
			has[encode(items[i])] = true
		}
	}
	for i := range current {
		if encoded := encode(current[i]); !has[encoded] {
			has[encoded] = true
			list = append(list, current[i])
		}
	}
	return list
}

func affinityWithAdded(affinity, current, expected *corev1.Affinity) *corev1.Affinity {
	if current == nil || equality.Semantic.DeepEqual(current, expected) {
		return affinity
	}
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if expected == nil {
		expected = &corev1.Affinity{}
	}
	if a := current.NodeAffinity; a != nil && !equality.Semantic.DeepEqual(a, expected.NodeAffinity) {
		affinity.NodeAffinity = a
	}
	if a := current.PodAffinity; a != nil && !equality.Semantic.DeepEqual(a, expected.PodAffinity) {
		affinity.PodAffinity = a
	}
	if a := current.PodAntiAffinity; a != nil && !equality.Semantic.DeepEqual(a, expected.PodAntiAffinity) {
		affinity.PodAntiAffinity = a
	}
	return affinity
}

// excerpt returns the beginning of a text that is wrong, for a message: conditions, events and logs show it.
func excerpt(text string) string {
	const most = 256
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
