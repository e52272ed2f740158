package needs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// listable are the kinds that the annotation use-existing may list.
var listable = []Resource{ //nolint:gochecknoglobals // constant
	ConfigMaps, Secrets, ResourceClaims, ResourceClaimTemplates,
}

// ListsClaim says whether the pod's annotation use-existing lists what a resource claim of the pod refers to: targets
// have it already. An annotation that ValidateExisting rejects lists nothing.
func ListsClaim(pod *corev1.Pod, claim *corev1.PodResourceClaim) bool {
	own, listed := pod.Annotations[v1alpha1.AnnotationUseExisting]
	existing, err := parseExisting(own)
	return listed && err == nil && (len(existing) == 0 || slices.Contains(existing, ClaimRef(claim)))
}

// ClaimRef returns what a resource claim of a pod refers to.
func ClaimRef(claim *corev1.PodResourceClaim) Ref {
	if name := claim.ResourceClaimTemplateName; name != nil {
		return Ref{ResourceClaimTemplates, *name}
	}
	return Ref{ResourceClaims, ptr.Deref(claim.ResourceClaimName, "")}
}

// Followed returns the ConfigMaps, Secrets and ServiceAccounts among the needs of the pod, without those that the pod's
// annotation use-existing lists. An annotation that ValidateExisting rejects lists nothing.
func Followed(pod *corev1.Pod) []Need {
	own, listed := pod.Annotations[v1alpha1.AnnotationUseExisting]
	existing, err := parseExisting(own)
	return slices.DeleteFunc(Of(pod), func(n Need) bool {
		switch {
		case n.Resource == PersistentVolumeClaims:
			return true
		case !listed || err != nil || n.Resource == ServiceAccounts:
			return false
		default:
			return len(existing) == 0 || slices.Contains(existing, n.Ref)
		}
	})
}

// ValidateExisting returns an error if the value of the annotation use-existing is not valid.
func ValidateExisting(value string) error {
	_, err := parseExisting(value)
	return err
}

// parseExisting returns the listed references, or none if the value is empty, which means all objects.
func parseExisting(value string) ([]Ref, error) {
	if strings.TrimSpace(value) == "" {
		return nil, nil
	}
	var refs []Ref
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		resource, name, found := strings.Cut(item, "/")
		ref := Ref{Resource(resource), name}
		if !found || name == "" || !slices.Contains(listable, ref.Resource) {
			return nil, fmt.Errorf("%q is none of configmaps/NAME, secrets/NAME, resourceclaims/NAME and "+
				"resourceclaimtemplates/NAME", item)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
