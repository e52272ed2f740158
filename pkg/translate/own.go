package translate

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// onlyOfSource makes affinity, anti-affinity and topology spread of a delegate count only the delegates of its own
// source. Pods of other sources, and of the target's own users, can have the same labels.
//
// A selector that names the source itself, by one of the labels that delegates have, stays as it is.
func onlyOfSource(spec *corev1.PodSpec, source Source) {
	for i := range spec.TopologySpreadConstraints {
		requireSource(spec.TopologySpreadConstraints[i].LabelSelector, source)
	}
	if spec.Affinity == nil {
		return
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		requireSourceOf(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, source)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		requireSourceOf(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, source)
	}
}

func requireSourceOf(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, source Source) {
	for i := range required {
		requireSource(required[i].LabelSelector, source)
	}
	for i := range preferred {
		requireSource(preferred[i].PodAffinityTerm.LabelSelector, source)
	}
}

// requireSource leaves a selector that is nil as it is: it selects no pods. An empty one selects all.
func requireSource(selector *metav1.LabelSelector, source Source) {
	if selector == nil || namesSource(selector) {
		return
	}
	if selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	selector.MatchLabels[v1alpha1.LabelParentClusterID] = source.ClusterID
}

func namesSource(selector *metav1.LabelSelector) bool {
	for _, key := range []string{v1alpha1.LabelParentClusterID, v1alpha1.LabelParentClusterName} {
		if _, ok := selector.MatchLabels[key]; ok {
			return true
		}
		named := func(e metav1.LabelSelectorRequirement) bool { return e.Key == key }
		if slices.ContainsFunc(selector.MatchExpressions, named) {
			return true
		}
	}
	return false
}

// keepLabels adds the pod's labels under their own keys to the delegate's. Only the keys of our own labels are taken. A
// label of another key never has one of the user's keys: the rewriter leaves it to the label that has it already.
//
// The labels with rewritten keys stay, because the copies of Services select by them, in targets of either kind and
// whatever the target's field was when a delegate was made. So do the selectors of other delegates.
func keepLabels(labels, pod map[string]string) {
	for key, value := range pod {
		if !reserved(key) {
			labels[key] = value
		}
	}
}

// ofNode says whether API servers give a pod this label when it is bound: those of its node. The delegate has those of
// its own node.
func ofNode(label string) bool {
	return label == corev1.LabelTopologyZone || label == corev1.LabelTopologyRegion
}

// ownLabels returns the labels of a proxy without those of its virtual node.
func ownLabels(proxy *corev1.Pod) map[string]string {
	_, zone := proxy.Labels[corev1.LabelTopologyZone]
	_, region := proxy.Labels[corev1.LabelTopologyRegion]
	if !zone && !region {
		return proxy.Labels
	}
	own := maps.Clone(proxy.Labels)
	maps.DeleteFunc(own, func(key, _ string) bool { return ofNode(key) })
	return own
}
