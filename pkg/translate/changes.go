package translate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// atCreation returns the fingerprint that a new PodChaperon has. The ephemeral containers of a proxy follow in a
// change, because no pod can be created with some.
func atCreation(proxy *corev1.Pod) string {
	if len(proxy.Spec.EphemeralContainers) == 0 {
		return Fingerprint(proxy)
	}
	without := *proxy
	without.Spec.EphemeralContainers = nil
	return Fingerprint(&without)
}

// addedTolerations returns the tolerations that somebody added to the proxy after its admission. Those of the API
// servers' defaults are not among them.
func addedTolerations(proxy *corev1.Pod) []corev1.Toleration {
	chosen, err := proxyConstraints(proxy)
	if err != nil {
		return nil
	}
	var added []corev1.Toleration
	for _, t := range proxy.Spec.Tolerations {
		byDefault := t.Operator == corev1.TolerationOpExists && t.Effect == corev1.TaintEffectNoExecute &&
			(t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) &&
			ptr.Deref(t.TolerationSeconds, 0) == defaultTolerationSeconds
		if !byDefault {
			added = append(added, t)
		}
	}
	return withAdded(nil, added, chosen.Tolerations)
}

// ChangedChaperon returns the PodChaperon that exists in a target with the changes of its proxy: labels, annotations,
// and those fields of the spec that API servers let change in a pod. Everything else stays as it is. So do the labels
// and annotations by which the PodChaperon is recognised.
//
// If the proxy's fingerprint is that of the PodChaperon, or nothing differs, only the fingerprint changes, or nothing.
func ChangedChaperon(
	proxy *corev1.Pod, source Source, to Destination, existing *v1alpha1.PodChaperon,
) (*v1alpha1.PodChaperon, error) {
	_, to.KeepLabels = existing.Annotations[v1alpha1.AnnotationKeepsLabels]
	wished, err := Chaperon(proxy, source, to)
	if err != nil {
		return nil, err
	}
	changed := existing.DeepCopy()
	changed.Labels = withOwn(wished.Labels, existing.Labels, reserved)
	changed.Annotations = withOwn(wished.Annotations, existing.Annotations, isOwnAnnotation)
	changeSpec(&changed.Spec, &wished.Spec)
	keep, fieldErr := labelsToKeep(proxy.Labels, proxy.Annotations)
	if fieldErr != nil {
		return nil, fieldErr
	}
	ephemeral, err := ephemeralContainers(proxy, newRewriter(ownLabels(proxy), keep))
	if err != nil {
		return nil, err
	}
	addEphemeral(&changed.Spec, ephemeral)

	revision := Revision{Number: RevisionOf(existing).Number, Fingerprint: Fingerprint(proxy)}
	if encode(parts(delegateOf(changed))) != encode(parts(delegateOf(existing))) {
		revision.Number++
	}
	changed.Annotations[v1alpha1.AnnotationRevision] = revision.String()
	return changed, nil
}

// withOwn returns the wished entries, with those of the existing ones that are our own.
func withOwn(wished, existing map[string]string, own func(string) bool) map[string]string {
	out := map[string]string{}
	for key, value := range wished {
		if !own(key) {
			out[key] = value
		}
	}
	for key, value := range existing {
		if own(key) {
			out[key] = value
		}
	}
	return out
}

// isOwnAnnotation says whether an annotation stays as it is. Those that carry values of the proxy change with it.
func isOwnAnnotation(key string) bool { return strings.HasPrefix(key, ownPrefix) && !carries(key) }

// changeSpec takes from the wished spec the fields that may change in a pod.
func changeSpec(spec, wished *corev1.PodSpec) {
	changeContainers(spec.InitContainers, wished.InitContainers)
	changeContainers(spec.Containers, wished.Containers)
	spec.Tolerations = withAdded(spec.Tolerations, wished.Tolerations, nil)
	spec.ActiveDeadlineSeconds = wished.ActiveDeadlineSeconds
	spec.TerminationGracePeriodSeconds = wished.TerminationGracePeriodSeconds
	spec.Resources = wished.Resources
}

func changeContainers(containers, wished []corev1.Container) {
	for i := range containers {
		c := containerOf(wished, containers[i].Name)
		if c == nil {
			continue
		}
		containers[i].Image, containers[i].Resources = c.Image, c.Resources
	}
}

func containerOf(containers []corev1.Container, name string) *corev1.Container {
	i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &containers[i]
}

// ephemeralContainers returns the proxy's ephemeral containers as its delegate has them.
func ephemeralContainers(proxy *corev1.Pod, labels rewriter) ([]corev1.EphemeralContainer, error) {
	ofOldServers := func(m corev1.VolumeMount) bool {
		return slices.ContainsFunc(proxy.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == m.Name && v.Secret != nil && automaticToken(&v, &proxy.Spec)
		})
	}
	shown := &corev1.PodSpec{}
	for i := range proxy.Spec.EphemeralContainers {
		c := proxy.Spec.EphemeralContainers[i].DeepCopy()
		c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, ofOldServers)
		shown.EphemeralContainers = append(shown.EphemeralContainers, *c)
	}
	return shown.EphemeralContainers, identify(shown, proxy, labels)
}

// addEphemeral adds the containers that the spec lacks. Nobody can change or remove one.
func addEphemeral(spec *corev1.PodSpec, wished []corev1.EphemeralContainer) {
	for i := range wished {
		if !slices.ContainsFunc(spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
			return c.Name == wished[i].Name
		}) {
			spec.EphemeralContainers = append(spec.EphemeralContainers, wished[i])
		}
	}
}

// The beginnings of the keys of a record. Each is followed by the key of a label or annotation, or by the name of a
// container.
const (
	partLabel, partAnnotation = "labels/", "annotations/"
	partImage, partResources  = "image/", "resources/"
	partEphemeral             = "ephemeral/"
	partPodResources          = "resources"
	partTolerations           = "tolerations"
	partDeadline              = "activeDeadlineSeconds"
	partGrace                 = "terminationGracePeriodSeconds"

	recordHashLength = 12
)

// record has a hash of each value that a delegate got from its PodChaperon.
type record map[string]string

// parts returns the values that may change, by the keys of a record.
func parts(delegate *corev1.Pod) map[string]any {
	all := map[string]any{}
	for key, value := range delegate.Labels {
		if !reserved(key) {
			all[partLabel+key] = value
		}
	}
	for key, value := range delegate.Annotations {
		if !isOwnAnnotation(key) {
			all[partAnnotation+key] = value
		}
	}
	spec := &delegate.Spec
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			c := &containers[i]
			all[partImage+c.Name] = c.Image
			addIf(all, partResources+c.Name, c.Resources, len(c.Resources.Requests)+len(c.Resources.Limits) > 0)
		}
	}
	for i := range spec.EphemeralContainers {
		all[partEphemeral+spec.EphemeralContainers[i].Name] = spec.EphemeralContainers[i]
	}
	addIf(all, partTolerations, spec.Tolerations, len(spec.Tolerations) > 0)
	addIf(all, partDeadline, spec.ActiveDeadlineSeconds, spec.ActiveDeadlineSeconds != nil)
	addIf(all, partGrace, spec.TerminationGracePeriodSeconds, spec.TerminationGracePeriodSeconds != nil)
	addIf(all, partPodResources, spec.Resources, spec.Resources != nil)
	return all
}

func addIf(all map[string]any, key string, value any, given bool) {
	if given {
		all[key] = value
	}
}

// recordOf returns the record of a delegate that is as its PodChaperon says.
func recordOf(delegate *corev1.Pod) record {
	r := record{}
	for key, value := range parts(delegate) {
		r[key] = hash(encode(value), recordHashLength)
	}
	return r
}

func recordIn(delegate *corev1.Pod, r record) {
	if delegate.Annotations == nil {
		delegate.Annotations = map[string]string{}
	}
	delegate.Annotations[v1alpha1.AnnotationApplied] = encode(r)
}

// recorded returns the record of a delegate, or nil if an earlier version made the delegate, or somebody spoiled it.
func recorded(delegate *corev1.Pod) record {
	var r record
	if err := json.Unmarshal([]byte(delegate.Annotations[v1alpha1.AnnotationApplied]), &r); err != nil {
		return nil
	}
	return maps.Clone(r)
}
