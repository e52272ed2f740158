package diagnosis

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Needs lists everything that the scheduler compares with the targets: the pod's requests, its constraints on the
// target's nodes, and its constraints on virtual nodes.
func Needs(pod *corev1.Pod) []string {
	listed := []string{requests(pod)}
	inTarget, err := translate.DelegateConstraints(pod)
	if err != nil {
		return append(listed, "an annotation that cannot be read: "+err.Error())
	}
	for _, need := range constraints(inTarget) {
		listed = append(listed, "in the target, "+need)
	}
	selector := maps.Clone(pod.Spec.NodeSelector)
	delete(selector, v1alpha1.LabelNodeProvider) // Every proxy has it.
	ofVirtualNodes := translate.Constraints{
		NodeSelector: selector, Affinity: pod.Spec.Affinity,
		TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints,
	}
	for _, need := range constraints(ofVirtualNodes) {
		listed = append(listed, "of virtual nodes, "+need)
	}
	if p := pod.Spec.Priority; p != nil && *p != 0 {
		listed = append(listed, fmt.Sprintf("priority %d", *p))
	}
	return listed
}

func requests(pod *corev1.Pod) string {
	list := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		if amount := list[name]; !amount.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %s", name, amount.String()))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// constraints lists the constraints that nodes must satisfy, and leaves out preferences.
func constraints(c translate.Constraints) []string {
	var listed []string
	if len(c.NodeSelector) > 0 {
		var pairs []string
		for _, key := range slices.Sorted(maps.Keys(c.NodeSelector)) {
			pairs = append(pairs, key+"="+c.NodeSelector[key])
		}
		listed = append(listed, "node selector "+strings.Join(pairs, ","))
	}
	if a := c.Affinity; a != nil && a.NodeAffinity != nil {
		if required := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			listed = append(listed, "node affinity "+terms(required.NodeSelectorTerms))
		}
	}
	if tolerated := tolerations(c.Tolerations); tolerated != "" {
		listed = append(listed, "tolerates "+tolerated)
	}
	for i := range c.TopologySpreadConstraints {
		if spread := &c.TopologySpreadConstraints[i]; spread.WhenUnsatisfiable == corev1.DoNotSchedule {
			listed = append(listed, "spread over "+spread.TopologyKey)
		}
	}
	return listed
}

func terms(all []corev1.NodeSelectorTerm) string {
	alternatives := make([]string, 0, len(all))
	for _, term := range all {
		var parts []string
		for _, r := range slices.Concat(term.MatchExpressions, term.MatchFields) {
			part := r.Key + " " + string(r.Operator)
			if len(r.Values) > 0 {
				part += " " + strings.Join(r.Values, "|")
			}
			parts = append(parts, part)
		}
		alternatives = append(alternatives, strings.Join(parts, " and "))
	}
	return strings.Join(alternatives, ", or ")
}

// tolerations lists the user's tolerations. Kubernetes adds tolerations of its own taints to every pod.
func tolerations(all []corev1.Toleration) string {
	var named []string
	for _, t := range all {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			continue
		}
		name := t.Key
		if name == "" {
			name = "everything"
		}
		if t.Value != "" {
			name += "=" + t.Value
		}
		if t.Effect != "" {
			name += ":" + string(t.Effect)
		}
		named = append(named, name)
	}
	return strings.Join(named, ", ")
}
