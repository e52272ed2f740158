package translate

import (
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// DelegateSelector translates the selector of a Service, so that it selects the delegates of this source whose proxies
// the Service selects. An empty selector stays empty. The annotations are the Service's. The Service must have the same
// annotation no-prefix-label-regexp as the pods.
//
// Limitation: the keys of two labels of a pod may differ only in the part before the slash. If the selector has only
// one of them, the result may select nothing.
func DelegateSelector(selector, annotations map[string]string, source Source) (map[string]string, error) {
	if len(selector) == 0 {
		return nil, nil
	}
	if n := len(selector); n > maxLabels {
		return nil, field.TooMany(field.NewPath("spec", "selector"), n, maxLabels)
	}
	keep, err := labelsToKeep(nil, annotations)
	if err != nil {
		return nil, err
	}
	out := newRewriter(selector, keep).labels(selector)
	out[v1alpha1.LabelParentClusterID] = source.ClusterID
	return out, nil
}

// UserSelector is the inverse of DelegateSelector. The selector is a result of DelegateSelector, which the user may
// have changed since; original is the selector that was translated. UserSelector returns the selector that the user
// wants: the original, unless keys of the selector that the translation did not write differ from the original.
func UserSelector(selector, original map[string]string) map[string]string {
	theirs := maps.Clone(selector)
	maps.DeleteFunc(theirs, func(key, _ string) bool { return strings.HasPrefix(key, ownPrefix) })
	if len(theirs) == len(selector) {
		return theirs
	}
	rest := maps.Clone(original)
	maps.DeleteFunc(rest, func(key, _ string) bool { _, ok := theirs[key]; return ok })
	others := newRewriter(rest, nil).labels(rest)
	for key, value := range theirs {
		was, kept := original[key]
		_, changed := selector[rewrite(key)] // The key is there in both forms: the user added this one.
		_, another := others[rewrite(key)]
		if !kept || was != value || changed && !another {
			return theirs
		}
	}
	return maps.Clone(original)
}
