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
// virtual node keeps them.
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
	addsAffinity := affinity != nil && nodeAffinityOf(chosen.Affinity) == nil
	if len(added) == 0 && !addsAffinity {
		return
	}
	proxy.Spec.NodeSelector = chosen.NodeSelector
	if len(added) > 0 {
		original.NodeSelector = withSelector(original.NodeSelector, added)
	}
	if addsAffinity {
		proxy.Spec.Affinity = proxy.Spec.Affinity.DeepCopy()
		proxy.Spec.Affinity.NodeAffinity = nil
		if original.Affinity == nil {
			original.Affinity = &corev1.Affinity{}
		}
		original.Affinity.NodeAffinity = both(original.Affinity.NodeAffinity, affinity)
	}
	if encoded, err := original.encode(); err == nil {
		proxy.Annotations = maps.Clone(proxy.Annotations)
		proxy.Annotations[v1alpha1.AnnotationOriginalConstraints] = encoded
	}
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
