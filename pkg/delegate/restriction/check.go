package restriction

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// defaultServiceAccount is the service account of a pod that names none.
const defaultServiceAccount = "default"

// RefusedError says which fields of a delegate break which rules.
type RefusedError struct {
	message string
}

func (e *RefusedError) Error() string { return e.message }

// check returns one sentence for each rule that the pod breaks. It also returns a sentence for a rule that is invalid.
func check(evaluator policy.Evaluator, rule Rule, pod *corev1.Pod) []string {
	var broken []string
	if names := rule.Rules.ServiceAccountNames; names != nil {
		broken = append(broken, checkServiceAccount(rule.Source, names, &pod.Spec)...)
	}
	if podSecurity := rule.Rules.PodSecurity; podSecurity != nil {
		broken = append(broken, checkPodSecurity(evaluator, rule.Source, podSecurity, pod)...)
	}
	return broken
}

func checkServiceAccount(source string, allowed []string, spec *corev1.PodSpec) []string {
	name := accountOf(spec)
	if slices.Contains(allowed, name) {
		return nil
	}
	return []string{
		fmt.Sprintf("spec.serviceAccountName is %q, but %s (spec.delegates.serviceAccountNames) allows only %s",
			name, source, quoted(allowed)),
	}
}

// accountOf returns the name of the service account. An API server takes the deprecated field if the other one is
// empty.
func accountOf(spec *corev1.PodSpec) string {
	return cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, defaultServiceAccount)
}

func checkPodSecurity(
	evaluator policy.Evaluator,
	source string,
	rule *v1alpha1.PodSecurityRule,
	pod *corev1.Pod,
) []string {
	level, err := psa.ParseLevel(string(rule.Level))
	if err != nil {
		return invalid(source, "level", string(rule.Level), err)
	}
	version, err := psa.ParseVersion(cmp.Or(rule.Version, psa.VersionLatest))
	if err != nil {
		return invalid(source, "version", rule.Version, err)
	}
	standard := psa.LevelVersion{Level: level, Version: version}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(standard, &pod.ObjectMeta, &pod.Spec))
	if result.Allowed {
		return nil
	}
	return []string{fmt.Sprintf("%s (spec.delegates.podSecurity) requires the Pod Security level %q, which forbids: %s",
		source, standard.String(), result.ForbiddenDetail())}
}

func invalid(source, field, value string, err error) []string {
	return []string{
		fmt.Sprintf("%s is invalid and allows no delegate: spec.delegates.podSecurity.%s is %q: %v: correct it",
			source, field, value, err),
	}
}

func quoted(names []string) string {
	quoted := make([]string, 0, len(names))
	for _, name := range names {
		quoted = append(quoted, fmt.Sprintf("%q", name))
	}
	return strings.Join(quoted, ", ")
}
