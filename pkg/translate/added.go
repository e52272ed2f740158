package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// MoveAdded moves constraints that somebody added to an unbound proxy after its admission to the delegate's
// constraints, in place. API servers let others add a node selector or node affinity to a pod while it has scheduling
// gates, as queueing systems do. They are about the nodes of targets. A proxy whose spec's constraints choose the
// virtual node keeps them. So does a proxy to which somebody adds too many alternatives to combine them, or another
// value for a label than the user's selector has: it then fits no virtual node.
//
// Our scheduler sees proxies so. What the API server has stays as it is.
func MoveAdded(proxy *corev1.Pod) {
	affinity := nodeAffinityOf(proxy.Spec.Affinity)
	if len(proxy.Spec.NodeSelector) < 2 && affinity == nil || !Admitted(proxy) {
		return
	}
	chosen, fieldErr := proxyConstraints(proxy)
	original, err := decodeConstraints(proxy.Annotations[v1alpha1.AnnotationOriginalConstraints])
	if fieldErr != nil || err != nil {
		return
	}
	added := maps.Clone(proxy.Spec.NodeSelector)
	maps.DeleteFunc(added, func(key, value string) bool { return chosen.NodeSelector[key] == value })
	addedAffinity := nodeAffinityAdded(nodeAffinityOf(chosen.Affinity), affinity)
	if len(added) == 0 && addedAffinity == nil || !compatible(original, added, addedAffinity) {
		return
	}
	proxy.Spec.NodeSelector = chosen.NodeSelector
	if len(added) > 0 {
		original.NodeSelector = withSelector(original.NodeSelector, added)
	}
	if addedAffinity != nil {
		proxy.Spec.Affinity = proxy.Spec.Affinity.DeepCopy()
		proxy.Spec.Affinity.NodeAffinity = withRequired(nodeAffinityOf(chosen.Affinity), affinity, addedAffinity)
		if original.Affinity == nil {
			original.Affinity = &corev1.Affinity{}
		}
		original.Affinity.NodeAffinity = both(original.Affinity.NodeAffinity, addedAffinity)
	}
	if encoded, err := original.encode(); err == nil {
		proxy.Annotations = maps.Clone(proxy.Annotations)
		proxy.Annotations[v1alpha1.AnnotationOriginalConstraints] = encoded
	}
}

// withRequired returns the affinity that the proxy keeps. If none of the required terms is added, those of now stay:
// somebody may have added to some alternatives only.
func withRequired(chosen, now, added *corev1.NodeAffinity) *corev1.NodeAffinity {
	if added.RequiredDuringSchedulingIgnoredDuringExecution != nil || chosen == nil {
		return chosen
	}
	kept := chosen.DeepCopy()
	kept.RequiredDuringSchedulingIgnoredDuringExecution = now.RequiredDuringSchedulingIgnoredDuringExecution
	return kept
}

// compatible says whether constraints can have a selector and an affinity in addition.
func compatible(original Constraints, selector map[string]string, affinity *corev1.NodeAffinity) bool {
	for key, value := range selector {
		if own, ok := original.NodeSelector[key]; ok && own != value {
			return false
		}
	}
	return !tooMany(nodeAffinityOf(original.Affinity), affinity)
}

func withSelector(selector, added map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, selector)
	maps.Copy(out, added)
	return out
}

func nodeAffinityOf(affinity *corev1.Affinity) *corev1.NodeAffinity {
	if affinity == nil {
		return nil
	}
	return affinity.NodeAffinity
}

// nodeAffinityAdded returns what an affinity has beyond what it had before, or nil.
func nodeAffinityAdded(before, now *corev1.NodeAffinity) *corev1.NodeAffinity {
	if before == nil || now == nil {
		return now
	}
	added := &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: termsAdded(
			before.RequiredDuringSchedulingIgnoredDuringExecution, now.RequiredDuringSchedulingIgnoredDuringExecution),
		PreferredDuringSchedulingIgnoredDuringExecution: withAdded(
			nil,
			now.PreferredDuringSchedulingIgnoredDuringExecution,
			before.PreferredDuringSchedulingIgnoredDuringExecution,
		),
	}
	if added.RequiredDuringSchedulingIgnoredDuringExecution == nil &&
		added.PreferredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return added
}

// termsAdded returns what was added to each of the alternatives. API servers let others add to an alternative, and add
// no alternative. If one of them is as before, nothing more is required.
func termsAdded(before, now *corev1.NodeSelector) *corev1.NodeSelector {
	if before == nil || now == nil {
		return now
	}
	if len(before.NodeSelectorTerms) != len(now.NodeSelectorTerms) {
		return nil
	}
	var added []corev1.NodeSelectorTerm
	for i, was := range before.NodeSelectorTerms {
		is := now.NodeSelectorTerms[i]
		term := corev1.NodeSelectorTerm{
			MatchExpressions: withAdded(nil, is.MatchExpressions, was.MatchExpressions),
			MatchFields:      withAdded(nil, is.MatchFields, was.MatchFields),
		}
		if len(term.MatchExpressions)+len(term.MatchFields) == 0 {
			return nil
		}
		added = append(added, term)
	}
	return &corev1.NodeSelector{NodeSelectorTerms: withAdded(nil, added, nil)}
}

// maxTerms is how many alternatives both may make.
const maxTerms = 1000

// tooMany says whether both would make too many alternatives. API servers accept ten thousand in each.
func tooMany(a, b *corev1.NodeAffinity) bool {
	terms := func(affinity *corev1.NodeAffinity) int {
		if affinity == nil || affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
			return 0
		}
		return len(affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}
	return terms(a)*terms(b) > maxTerms
}

// both returns the affinity that requires what two affinities require, and prefers what either prefers.
func both(a, b *corev1.NodeAffinity) *corev1.NodeAffinity {
	if a == nil {
		return b
	}
	out := a.DeepCopy()
	out.PreferredDuringSchedulingIgnoredDuringExecution = slices.Concat(
		a.PreferredDuringSchedulingIgnoredDuringExecution, b.PreferredDuringSchedulingIgnoredDuringExecution)
	required, more := a.RequiredDuringSchedulingIgnoredDuringExecution, b.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		out.RequiredDuringSchedulingIgnoredDuringExecution = more
	}
	if required == nil || more == nil {
		return out
	}
	out.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{}
	for _, x := range required.NodeSelectorTerms { // alternatives, so each of one goes with each of the other
		for _, y := range more.NodeSelectorTerms {
			term := corev1.NodeSelectorTerm{
				MatchExpressions: slices.Concat(x.MatchExpressions, y.MatchExpressions),
				MatchFields:      slices.Concat(x.MatchFields, y.MatchFields),
			}
			terms := &out.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			*terms = append(*terms, term)
		}
	}
	return out
}
