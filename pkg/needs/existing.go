package needs

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// listable are the kinds that the annotation use-existing may list.
var listable = []Resource{ //nolint:gochecknoglobals // constant
	ConfigMaps, Secrets, ResourceClaims, ResourceClaimTemplates,
}

// Existing is what targets have already, as a pod's annotation use-existing says.
type Existing struct {
	all  bool
	refs sets.Set[Ref]
}

// ExistingOf returns what the annotation of a pod lists. An annotation that ValidateExisting rejects lists nothing.
func ExistingOf(pod *corev1.Pod) Existing {
	own, listed := pod.Annotations[v1alpha1.AnnotationUseExisting]
	refs, err := parseExisting(own)
	if !listed || err != nil {
		return Existing{}
	}
	return Existing{all: len(refs) == 0, refs: sets.New(refs...)}
}

// Has says whether targets have an object already.
func (e Existing) Has(ref Ref) bool { return e.all || e.refs.Has(ref) }

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
	existing := ExistingOf(pod)
	return slices.DeleteFunc(Of(pod), func(n Need) bool {
		return n.Resource == PersistentVolumeClaims || n.Resource != ServiceAccounts && existing.Has(n.Ref)
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
