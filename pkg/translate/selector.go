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
// it returns the one that the user wants. That is the original, unless other keys than ours say something else by now.
func UserSelector(selector, original map[string]string) map[string]string {
	theirs := maps.Clone(selector)
	maps.DeleteFunc(theirs, func(key, _ string) bool { return strings.HasPrefix(key, ownPrefix) })
	if len(theirs) == len(selector) {
		return theirs
	}
	for key, value := range theirs {
		if was, ok := original[key]; !ok || was != value {
			return theirs
		}
	}
	return maps.Clone(original)
}
