package translate

import (
	"maps"
	"strings"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// DelegateSelector returns the selector that finds, among the delegates of this source, those whose proxies the selector of a Service
// finds. The annotations are the Service's: no-prefix-label-regexp counts, and has to be the pods' own. No selector remains none. Where two
// labels of a pod differ only in the part before the slash, and the selector has but one of them, it may find none.
func DelegateSelector(selector, annotations map[string]string, source Source) (map[string]string, error) {
	if len(selector) == 0 {
		return nil, nil
	}
	keep, err := labelsToKeep(annotations)
	if err != nil {
		return nil, err
	}
	out := newRewriter(selector, keep).labels(selector)
	out[v1alpha1.LabelParentClusterID] = source.ClusterID
	return out, nil
}

// UserSelector is the inverse: of a selector that is, or was before somebody wrote into it again, one of DelegateSelector's,
// it returns the one that the user wants. That is the original, unless keys that the rewriting has not kept say something else by now.
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
		_, changed := selector[rewrite(key)] // It stands there in both forms: the user's was added.
		_, another := others[rewrite(key)]
		if !kept || was != value || changed && !another {
			return theirs
		}
	}
	return maps.Clone(original)
}
