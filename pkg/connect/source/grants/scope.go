package grants

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// excludedPrefix begins the names of namespaces that are left out by default: those of Kubernetes itself.
const excludedPrefix = "kube-"

// choice says whether a ClusterSource may use a namespace.
type choice int

const (
	unselected choice = iota
	selected
	// excluded means that the selector selects the namespace, but that the namespace is left out by default.
	excluded
)

// scope is the namespaces that a ClusterSource may use.
type scope struct {
	selector labels.Selector
	// named are the values of the label with the namespace's name that the selector asks for.
	named            []string
	releaseNamespace string
}

// newScope returns an error for people if the selector is invalid. A nil selector selects all namespaces, as an empty
// one.
func newScope(selector *metav1.LabelSelector, releaseNamespace string) (scope, error) {
	s := scope{selector: labels.Everything(), releaseNamespace: releaseNamespace}
	if selector == nil {
		return s, nil
	}
	var err error
	if s.selector, err = metav1.LabelSelectorAsSelector(selector); err != nil {
		return s, fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	if name, ok := selector.MatchLabels[corev1.LabelMetadataName]; ok {
		s.named = append(s.named, name)
	}
	for _, expression := range selector.MatchExpressions {
		if expression.Key == corev1.LabelMetadataName && expression.Operator == metav1.LabelSelectorOpIn {
			s.named = append(s.named, expression.Values...)
		}
	}
	return s, nil
}

// selects says whether a namespace is selected.
func (s scope) selects(name string, namespaceLabels map[string]string) choice {
	label := namespaceLabels[v1alpha1.LabelSources]
	byDefault := strings.HasPrefix(name, excludedPrefix) || name == s.releaseNamespace
	switch {
	case !s.selector.Matches(labels.Set(namespaceLabels)):
		return unselected
	case slices.Contains(s.named, name), label == v1alpha1.LabelSourcesAllowed:
		return selected
	case label == v1alpha1.LabelSourcesExcluded:
		return unselected
	case byDefault:
		return excluded
	default:
		return selected
	}
}
