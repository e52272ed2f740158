package translate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/fieldpath"
)

// selectors rewrites all selectors of pods in a pod's spec, in place.
func (r rewriter) selectors(spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		r.selector(c.LabelSelector)
		c.MatchLabelKeys = r.matchLabelKeys(c.MatchLabelKeys)
	}
	r.affinity(spec.Affinity)
}

func (r rewriter) affinity(affinity *corev1.Affinity) {
	if affinity == nil {
		return
	}
	if a := affinity.PodAffinity; a != nil {
		r.terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := affinity.PodAntiAffinity; a != nil {
		r.terms(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (r rewriter) terms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) {
	for i := range required {
		r.term(&required[i])
	}
	for i := range preferred {
		r.term(&preferred[i].PodAffinityTerm)
	}
}

// term does not change the namespace selector, because the labels of namespaces are not rewritten.
func (r rewriter) term(term *corev1.PodAffinityTerm) {
	r.selector(term.LabelSelector)
	term.MatchLabelKeys = r.matchLabelKeys(term.MatchLabelKeys)
	term.MismatchLabelKeys = r.matchLabelKeys(term.MismatchLabelKeys)
}

// fieldRef rewrites a reference to a label of the pod itself.
func (r rewriter) fieldRef(ref *corev1.ObjectFieldSelector) {
	if path, key, ok := fieldpath.SplitMaybeSubscriptedPath(ref.FieldPath); ok && path == fieldLabels {
		ref.FieldPath = fieldLabels + "['" + r.key(key) + "']"
	}
}
