package needs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

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
		if !found || name == "" || ref.Resource != ConfigMaps && ref.Resource != Secrets {
			return nil, fmt.Errorf("%q is neither configmaps/NAME nor secrets/NAME", item)
		}
		refs = append(refs, ref)
	}
	return refs, nil
}
