package translate

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/amounts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/plainyaml"
)

// Elected says whether the user elected the pod to run in a target.
func Elected(pod *corev1.Pod) bool {
	return annotated(pod, v1alpha1.AnnotationElect)
}

// IsProxy says whether the pod is a proxy. One that is bound is recognised by the fields that nobody can change: the
// scheduler and the virtual node. A pod that is not bound must be Admitted.
func IsProxy(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return Admitted(pod)
	}
	return pod.Spec.SchedulerName == v1alpha1.SchedulerName && strings.HasPrefix(pod.Spec.NodeName, virtualNodePrefix)
}

// Admitted says whether admission made the pod a proxy, as its annotations say. Whoever may change pods can change
// annotations.
func Admitted(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == v1alpha1.SchedulerName &&
		Elected(pod) && annotated(pod, v1alpha1.AnnotationOriginalConstraints)
}

// BoundByHand says whether a pod that looks like a bound proxy was bound by somebody else: admission did not make it a
// proxy, and it never showed a delegate. So it is with copies of proxies that keep the node, as kubectl debug makes
// them.
func BoundByHand(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && IsProxy(pod) && !Admitted(pod) && pod.Status.StartTime == nil &&
		len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) == 0
}

// Proxy returns the proxy that an elected pod becomes at admission. The pod itself stays unchanged. The proxy
// differs only in its constraints, and in the annotation that keeps the user's own. The constraints are the scheduler's
// name, the node selector, the tolerations, the affinity and the topology spread constraints.
//
// By default the delegate gets the spec's constraints, and the proxy gets the constraints of the annotation
// proxy-pod-scheduling-constraints, if there is one. With the annotation
// use-constraints-from-spec-for-proxy-pod-scheduling, the delegate gets no constraints. The proxy then gets the spec's
// constraints, unless the first annotation is there, too.
//
// Proxy returns an aggregate of field errors.
//
// Proxy is idempotent, because API servers call webhooks again when another webhook has changed the pod. The second
// call gets our own output, perhaps with additions. A user who copies a proxy's manifest sends the same, and nothing in
// the request distinguishes the two. So a pod that names our scheduler and has our annotation counts as translated,
// under these conditions:
//   - The annotation is decoded strictly. It holds nothing that the spec of a pod could not hold: constraints on the
//     delegate, on which the target's own admission decides. A user can thereby evade only an admission plugin of the
//     source that refuses, say, a toleration of nodes in the source. The delegate does not run on these nodes.
//   - Everything that makes a pod a proxy is set again, whatever the pod says.
//   - Additions to our own output go to the delegate, and take precedence over the annotation. So an annotation cannot
//     avoid the constraints that admission plugins force on a pod (node selectors by namespace, say), and the additions
//     of other webhooks are not lost.
//
// If a pod does not name our scheduler, its annotation comes from the user. Proxy overwrites the annotation unread.
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
	delete(proxy.Annotations, v1alpha1.AnnotationFencedAfter)
	delete(proxy.Annotations, v1alpha1.AnnotationFromTarget)
	chosen.replaceIn(&proxy.Spec)
	if WithoutGrace(proxy) {
		proxy.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	if err := validateFence(proxy); err != nil {
		return nil, field.ErrorList{err}.ToAggregate()
	}
	return proxy, nil
}

// WithoutGrace says whether API servers would remove a pod at once when it is deleted. A proxy has a grace period, so
// that nothing replaces it before its delegate has ended.
func WithoutGrace(pod *corev1.Pod) bool {
	return ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds) == 0
}

func validateElected(pod *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	if !Elected(pod) {
		path := annotationPath(v1alpha1.AnnotationElect)
		errs = append(errs, field.Required(path, "only elected pods become proxies"))
	}
	if pod.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"),
			"the scheduler chooses the cluster of an elected pod: remove spec.nodeName, or the annotation "+
				v1alpha1.AnnotationElect))
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "DaemonSet" {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "ownerReferences"),
			"a DaemonSet names the node of each of its pods, and the scheduler chooses the cluster of an elected pod: "+
				"create the DaemonSet in the target clusters, or remove the annotation "+v1alpha1.AnnotationElect+
				" from its template"))
	}
	if pod.Spec.SchedulingGroup != nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "schedulingGroup"),
			"elected pods are placed one by one, and PodGroups do not follow them to targets: let a queueing system "+
				"admit the pods together, or remove the annotation "+v1alpha1.AnnotationElect))
	}
	if _, err := labelsToKeep(pod.Labels, pod.Annotations); err != nil {
		errs = append(errs, err)
	}
	fence := pod.Annotations[v1alpha1.AnnotationFenceAfter]
	if _, err := Fence(fence); err != nil {
		errs = append(errs, field.Invalid(annotationPath(v1alpha1.AnnotationFenceAfter), fence, err.Error()))
	}
	if _, err := seesDelegate(pod); err != nil {
		errs = append(errs, err)
	}
	if err := validateCarried(pod); err != nil {
		errs = append(errs, err)
	}
	existing := pod.Annotations[v1alpha1.AnnotationUseExisting]
	if err := needs.ValidateExisting(existing); err != nil {
		errs = append(errs, field.Invalid(annotationPath(v1alpha1.AnnotationUseExisting), existing, err.Error()))
	}
	return append(errs, validateClaims(pod)...)
}

// validateClaims refuses resource claims that no target can grant: neither they nor their templates follow the pod.
func validateClaims(pod *corev1.Pod) field.ErrorList {
	if len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	var errs field.ErrorList
	existing := needs.ExistingOf(pod)
	for i := range pod.Spec.ResourceClaims {
		if ref := needs.ClaimRef(&pod.Spec.ResourceClaims[i]); !existing.Has(ref) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "resourceClaims").Index(i), fmt.Sprintf(
				"the %s %q does not follow the pod to its target: create it in the targets, and say so by the "+
					"annotation %s: %s", ref.Resource.Kind(), ref.Name, v1alpha1.AnnotationUseExisting, ref)))
		}
	}
	return errs
}

// maxLabels is how many labels a pod or a selector may have. API servers do not bound them, and no pod has a hundred.
const maxLabels = 1000

// labelsToKeep returns nil if the annotation is missing. It fails if there are too many labels to translate.
func labelsToKeep(labels, annotations map[string]string) (*regexp.Regexp, *field.Error) {
	if n := len(labels); n > maxLabels {
		return nil, field.TooMany(field.NewPath("metadata", "labels"), n, maxLabels)
	}
	expression, ok := annotations[v1alpha1.AnnotationNoPrefixLabelRegexp]
	if !ok {
		return nil, nil
	}
	keep, err := CompileExpression(expression)
	if err != nil {
		path := annotationPath(v1alpha1.AnnotationNoPrefixLabelRegexp)
		return nil, field.Invalid(path, excerpt(expression), err.Error())
	}
	return keep, nil
}

// proxyConstraints returns the constraints for choosing the virtual node.
func proxyConstraints(pod *corev1.Pod) (Constraints, *field.Error) {
	var chosen Constraints
	path := field.NewPath("spec")
	if err := validateLength(path, &pod.Spec); err != nil {
		return Constraints{}, err
	}
	encoded, given := pod.Annotations[v1alpha1.AnnotationProxyConstraints]
	switch {
	case given:
		path = annotationPath(v1alpha1.AnnotationProxyConstraints)
		spec, err := decodePodSpec(encoded)
		if err != nil {
			return Constraints{}, field.Invalid(path, excerpt(encoded), err.Error())
		}
		if err := validateLength(path, spec); err != nil {
			return Constraints{}, err
		}
		chosen = constraintsOf(spec)
	case annotated(pod, v1alpha1.AnnotationUseSpecConstraints):
		chosen = constraintsOf(&pod.Spec)
	}
	provider, given := chosen.NodeSelector[v1alpha1.LabelNodeProvider]
	if given && provider != v1alpha1.LabelNodeProviderValue {
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
	if err := plainyaml.Check([]byte(encoded)); err != nil {
		return nil, err
	}
	asJSON, err := yaml.YAMLToJSONStrict([]byte(encoded))
	if err != nil {
		return nil, err
	}
	if err := amounts.Check(asJSON); err != nil {
		return nil, err
	}
	return spec, decodeStrictly(asJSON, spec)
}

// originalConstraints returns the delegate's constraints, given the proxy's.
func originalConstraints(pod *corev1.Pod, chosen Constraints) (Constraints, *field.Error) {
	original := constraintsOf(&pod.Spec)
	if Admitted(pod) {
		encoded := pod.Annotations[v1alpha1.AnnotationOriginalConstraints]
		decoded, err := decodeConstraints(encoded)
		if err != nil {
			path := annotationPath(v1alpha1.AnnotationOriginalConstraints)
			return Constraints{}, field.Invalid(path, excerpt(encoded),
				"only admission may write this annotation: remove it, and spec.schedulerName as well ("+err.Error()+")")
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
