package translate

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// spec rewrites all references to labels of pods in a pod's spec, in place: selectors and downward-API references.
func (r rewriter) spec(spec *corev1.PodSpec) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		r.selector(c.LabelSelector)
		c.MatchLabelKeys = r.matchLabelKeys(c.MatchLabelKeys)
	}
	r.affinity(spec.Affinity)
	for i := range spec.InitContainers {
		r.env(spec.InitContainers[i].Env)
	}
	for i := range spec.Containers {
		r.env(spec.Containers[i].Env)
	}
	for i := range spec.Volumes {
		r.volume(&spec.Volumes[i])
	}
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

func (r rewriter) env(env []corev1.EnvVar) {
	for _, e := range env {
		if e.ValueFrom != nil {
			r.fieldRef(e.ValueFrom.FieldRef)
		}
	}
}

func (r rewriter) volume(volume *corev1.Volume) {
	if volume.DownwardAPI != nil {
		r.files(volume.DownwardAPI.Items)
	}
	if volume.Projected == nil {
		return
	}
	for _, source := range volume.Projected.Sources {
		if source.DownwardAPI != nil {
			r.files(source.DownwardAPI.Items)
		}
	}
}

func (r rewriter) files(files []corev1.DownwardAPIVolumeFile) {
	for _, file := range files {
		r.fieldRef(file.FieldRef)
	}
}

func (r rewriter) fieldRef(ref *corev1.ObjectFieldSelector) {
	const begin, end = "metadata.labels['", "']"
	if ref == nil {
		return
	}
	key, ok := strings.CutPrefix(ref.FieldPath, begin)
	if !ok {
		return
	}
	if key, ok = strings.CutSuffix(key, end); ok {
		ref.FieldPath = begin + r.key(key) + end
	}
}
