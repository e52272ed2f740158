package translate

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ownPrefix is that of all labels and annotations of this project.
const ownPrefix = v1alpha1.GroupName + "/"

const collisionHashLength = 4

// rewriter rewrites the label keys of a pod, so that the target's own controllers and Services do not take the delegate
// for their pod. A key becomes multicluster.admiralty.io/<part after the last slash>, unless keep matches key=value.
//
// Several labels of one pod can get the same key. If their values are equal, they share the key, as job-name and
// batch.kubernetes.io/job-name do. Otherwise one label gets the key: the label that has this key already, or else the
// label whose key sorts first. The others get <key>-<four hexadecimal digits>. The keys of our own labels are taken.
type rewriter struct {
	keep *regexp.Regexp    // nil keeps none
	keys map[string]string // the new key for each key of the pod's labels
}

func newRewriter(labels map[string]string, keep *regexp.Regexp) rewriter {
	r := rewriter{keep: keep, keys: make(map[string]string, len(labels))}
	taken := make(map[string]string, len(labels))
	kept := make(map[string]bool, len(labels))
	for key, value := range labels {
		kept[key] = r.keeps(key, value)
	}
	for _, key := range slices.SortedFunc(maps.Keys(labels), precedence(kept)) {
		value, to := labels[key], key
		if !kept[key] {
			to = rewrite(key)
		}
		for n := 0; ; n++ {
			other, ok := taken[to]
			if !reserved(to) && (!ok || other == value) {
				break
			}
			to = distinct(key, n)
		}
		r.keys[key], taken[to] = to, value
	}
	return r
}

// precedence sorts the keys that stay as they are before those that change.
func precedence(kept map[string]bool) func(a, b string) int {
	rank := func(key string) int {
		if kept[key] || rewrite(key) == key {
			return 0
		}
		return 1
	}
	return func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	}
}

func (r rewriter) keeps(key, value string) bool {
	return r.keep != nil && !reserved(key) && r.keep.MatchString(key+"="+value)
}

func rewrite(key string) string {
	return ownPrefix + key[strings.LastIndexByte(key, '/')+1:]
}

func distinct(key string, n int) string {
	name := strings.TrimPrefix(rewrite(key), ownPrefix)
	suffix := "-" + hash(key+"/"+strconv.Itoa(n), collisionHashLength)
	return ownPrefix + cut(name, validation.LabelValueMaxLength-len(suffix)) + suffix
}

func reserved(key string) bool {
	switch key {
	case v1alpha1.LabelParentUID, v1alpha1.LabelParentClusterID, v1alpha1.LabelParentClusterName,
		v1alpha1.LabelTargetHash, v1alpha1.LabelTargetID:
		return true
	}
	return false
}

// labels returns the pod's labels with their keys rewritten.
func (r rewriter) labels(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for key, value := range labels {
		out[r.keys[key]] = value
	}
	return out
}

// key rewrites a key that comes without values: as on the pod itself, or else as on a pod without such a label.
func (r rewriter) key(key string) string {
	if to, ok := r.keys[key]; ok {
		return to
	}
	return r.requirementKey(key, "")
}

// requirementKey rewrites the key of a selector's requirement. The key stays if keep matches it with every value.
func (r rewriter) requirementKey(key string, values ...string) string {
	if len(values) == 0 {
		return r.key(key)
	}
	if !slices.ContainsFunc(values, func(v string) bool { return !r.keeps(key, v) }) {
		return key
	}
	if to, ok := r.keys[key]; ok && to != key {
		return to
	}
	if to := rewrite(key); to == key || !reserved(to) {
		return to
	}
	return distinct(key, 0) // As on pods that have such a label.
}

// selector rewrites a selector of pods in place.
func (r rewriter) selector(selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	for i := range selector.MatchExpressions {
		e := &selector.MatchExpressions[i]
		e.Key = r.requirementKey(e.Key, e.Values...)
	}
	matchLabels := selector.MatchLabels
	selector.MatchLabels = nil
	for _, key := range slices.Sorted(maps.Keys(matchLabels)) {
		value := matchLabels[key]
		to := r.requirementKey(key, value)
		if other, ok := selector.MatchLabels[to]; ok && other != value {
			selector.MatchExpressions = append(selector.MatchExpressions,
				metav1.LabelSelectorRequirement{Key: to, Operator: metav1.LabelSelectorOpIn, Values: []string{value}})
			continue
		}
		if selector.MatchLabels == nil {
			selector.MatchLabels = map[string]string{}
		}
		selector.MatchLabels[to] = value
	}
}

// matchLabelKeys returns the rewritten keys without duplicates.
func (r rewriter) matchLabelKeys(keys []string) []string {
	var out []string
	for _, key := range keys {
		if to := r.key(key); !slices.Contains(out, to) {
			out = append(out, to)
		}
	}
	return out
}
