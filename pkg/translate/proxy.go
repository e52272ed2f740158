package translate

import (
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
)

// Elected tells whether the user elected the pod to run in whichever cluster can take it.
func Elected(pod *corev1.Pod) bool {
	return annotated(pod, v1alpha1.AnnotationElect)
}

// IsProxy tells whether the pod went through admission as an elected pod.
func IsProxy(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == v1alpha1.SchedulerName &&
		Elected(pod) && annotated(pod, v1alpha1.AnnotationOriginalConstraints)
}

// Proxy returns the proxy pod that an elected pod becomes at admission. It changes the scheduler's name, the node selector,
// the tolerations, the affinity, the topology spread constraints and the annotation that keeps the user's own; nothing else.
// The pod itself is left alone.
//
// The constraints in the spec are kept for the delegate, and the proxy gets those of the annotation
// proxy-pod-scheduling-constraints, if any. With use-constraints-from-spec-for-proxy-pod-scheduling the delegate gets none,
// and the proxy, unless the former annotation says otherwise, those of the spec.
//
// Errors are field errors in an aggregate.
//
// Proxy is idempotent, because API servers call webhooks again when another one changed the pod in between. The pod that
// arrives then is our own output, maybe with additions; a user who copies a proxy's manifest sends the same, and nothing in
// the request tells them apart. So a pod that names our scheduler and carries our annotation is taken for translated, on
// these terms:
//   - The annotation is decoded strictly. It can only say what the spec of a pod could say as well: constraints on the
//     delegate, which the target's own admission judges. What it evades is a plugin of the source that refuses, say, a
//     toleration of nodes in the source, where the delegate does not run.
//   - All that makes a proxy is put in place again, whatever the pod says.
//   - What the spec has beyond our own output goes to the delegate and prevails over the annotation. So what admission
//     plugins force on a pod (node selectors by namespace, say) cannot be avoided by an annotation, and the additions
//     of other webhooks are not lost.
//
// In a pod that does not name our scheduler, the annotation was supplied by the user and is overwritten unread.
func Proxy(pod *corev1.Pod) (*corev1.Pod, error) {
	proxy := pod.DeepCopy()
	errs := validateElected(proxy)
	chosen, chosenErr := proxyConstraints(proxy)
	if chosenErr != nil {
		errs = append(errs, chosenErr)
	}
	original, originalErr := originalConstraints(proxy, chosen)
	if originalErr != nil {
		errs = append(errs, originalErr)
	}
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	encoded, err := original.encode()
	if err != nil {
		return nil, err
	}
	proxy.Annotations[v1alpha1.AnnotationOriginalConstraints] = encoded
	chosen.replaceIn(&proxy.Spec)
	return proxy, nil
}

func validateElected(pod *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	if !Elected(pod) {
		errs = append(errs, field.Required(annotationPath(v1alpha1.AnnotationElect), "only elected pods become proxies"))
	}
	if pod.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"),
			"the cluster of an elected pod is chosen by the scheduler: remove spec.nodeName, or the annotation "+
				v1alpha1.AnnotationElect))
	}
	if _, err := labelsToKeep(pod.Annotations); err != nil {
		errs = append(errs, err)
	}
	existing := pod.Annotations[v1alpha1.AnnotationUseExisting]
	if err := needs.ValidateExisting(existing); err != nil {
		errs = append(errs, field.Invalid(annotationPath(v1alpha1.AnnotationUseExisting), existing, err.Error()))
	}
	return errs
}

// labelsToKeep returns nil where there is no such annotation.
func labelsToKeep(annotations map[string]string) (*regexp.Regexp, *field.Error) {
	expression, ok := annotations[v1alpha1.AnnotationNoPrefixLabelRegexp]
	if !ok {
		return nil, nil
	}
	keep, err := regexp.Compile(expression)
	if err != nil {
		return nil, field.Invalid(annotationPath(v1alpha1.AnnotationNoPrefixLabelRegexp), expression, err.Error())
	}
	return keep, nil
}

// proxyConstraints returns the constraints by which a virtual node is chosen.
func proxyConstraints(pod *corev1.Pod) (Constraints, *field.Error) {
	var chosen Constraints
	path := field.NewPath("spec")
	encoded, given := pod.Annotations[v1alpha1.AnnotationProxyConstraints]
	switch {
	case given:
		path = annotationPath(v1alpha1.AnnotationProxyConstraints)
		spec, err := decodePodSpec(encoded)
		if err != nil {
			return Constraints{}, field.Invalid(path, encoded, err.Error())
		}
		chosen = constraintsOf(spec)
	case annotated(pod, v1alpha1.AnnotationUseSpecConstraints):
		chosen = constraintsOf(&pod.Spec)
	}
	if provider, ok := chosen.NodeSelector[v1alpha1.LabelNodeProvider]; ok && provider != v1alpha1.LabelNodeProviderValue {
		return Constraints{}, field.NotSupported(path.Child("nodeSelector").Key(v1alpha1.LabelNodeProvider),
			provider, []string{v1alpha1.LabelNodeProviderValue})
	}
	selector := map[string]string{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	maps.Copy(selector, chosen.NodeSelector)
	chosen.NodeSelector = selector
	chosen.Tolerations = proxyTolerations(chosen.Tolerations, pod.Spec.Tolerations)
	chosen.SchedulerName = v1alpha1.SchedulerName
	return chosen, nil
}

func decodePodSpec(encoded string) (*corev1.PodSpec, error) {
	spec := &corev1.PodSpec{}
	if strings.TrimSpace(encoded) == "" {
		return spec, nil
	}
	asJSON, err := yaml.YAMLToJSONStrict([]byte(encoded))
	if err != nil {
		return nil, err
	}
	return spec, decodeStrictly(asJSON, spec)
}

// originalConstraints returns the delegate's constraints, given the proxy's.
func originalConstraints(pod *corev1.Pod, chosen Constraints) (Constraints, *field.Error) {
	original := constraintsOf(&pod.Spec)
	if IsProxy(pod) {
		encoded := pod.Annotations[v1alpha1.AnnotationOriginalConstraints]
		decoded, err := decodeConstraints(encoded)
		if err != nil {
			return Constraints{}, field.Invalid(annotationPath(v1alpha1.AnnotationOriginalConstraints), encoded,
				"this annotation is written at admission: remove it, and spec.schedulerName as well ("+err.Error()+")")
		}
		original = decoded.with(original, chosen)
	}
	switch original.SchedulerName {
	case corev1.DefaultSchedulerName, v1alpha1.SchedulerName:
		original.SchedulerName = ""
	}
	if annotated(pod, v1alpha1.AnnotationUseSpecConstraints) {
		return Constraints{SchedulerName: original.SchedulerName}, nil
	}
	return original, nil
}

func annotated(pod *corev1.Pod, key string) bool {
	_, ok := pod.Annotations[key]
	return ok
}

func annotationPath(key string) *field.Path {
	return field.NewPath("metadata", "annotations").Key(key)
}
