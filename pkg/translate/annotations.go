package translate

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// maxTooLarge bounds how many annotations without room are named.
	maxTooLarge = 8
	// maxAddedAnnotations bounds the bytes of the annotations that one delegate passes to its proxy: keys, values, and
	// the hashes of the values in the proxy's mark.
	maxAddedAnnotations = 16 << 10
	// valueHashLength is 64 bits. To find a value with the hash of one that the user will write gains a target nothing:
	// it would have to know the user's value, and could report that value itself.
	valueHashLength = 16
	// valueHashSize is the space that a hash takes in a mark, with a blank and beforeHash.
	valueHashSize = 1 + len(beforeHash) + valueHashLength
	// beforeHash is no beginning of a key. So an earlier version, after a rollback, takes a hash for a key that the
	// proxy lacks.
	beforeHash = "="
)

// addedAnnotations is the message of the condition Annotations, as JSON.
type addedAnnotations struct {
	Annotations map[string]string `json:"annotations,omitempty"`
	// TooLarge are the keys of annotations that have no room, or the first of them.
	TooLarge []string `json:"tooLarge,omitempty"`
}

// wanted says whether one of the patterns means the key.
func wanted(patterns sets.Set[string], key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return copied(key) && (patterns.Has(key) || patterns.Has(domain+"/*"))
}

// AddedAnnotations returns the message of the condition Annotations for a delegate: the annotations that the source
// wants, and that others in the target gave the delegate. It is empty if there are none. Only the delegate's whole
// metadata says this.
func AddedAnnotations(delegate *corev1.Pod) string {
	patterns := delegate.Annotations[v1alpha1.AnnotationWantedAnnotations]
	if patterns == "" {
		return ""
	}
	given := recorded(delegate)
	if given == nil {
		return "" // Nobody knows which ones are the user's.
	}
	all, wants := map[string]string{}, sets.New(strings.Split(patterns, ",")...)
	for key, value := range delegate.Annotations {
		if _, users := given[partAnnotation+key]; !users && wanted(wants, key) {
			all[key] = value
		}
	}
	if len(all) == 0 {
		return ""
	}
	return encode(bounded(all))
}

// bounded returns the annotations that have room, in the order of their keys.
func bounded(all map[string]string) addedAnnotations {
	added := addedAnnotations{Annotations: map[string]string{}}
	room := maxAddedAnnotations
	for _, key := range slices.Sorted(maps.Keys(all)) {
		switch size := len(key) + len(all[key]) + valueHashSize; {
		case size <= room:
			room -= size
			added.Annotations[key] = all[key]
		case len(added.TooLarge) < maxTooLarge:
			added.TooLarge = append(added.TooLarge, key)
		}
	}
	return added
}

// AnnotationsCondition returns the condition of a PodChaperon for a message of AddedAnnotations.
func AnnotationsCondition(message string) corev1.PodCondition {
	return corev1.PodCondition{
		Type: v1alpha1.ConditionAnnotations, Status: corev1.ConditionTrue, Reason: v1alpha1.ReasonAnnotationsAdded,
		Message: message,
	}
}

// BoundAnnotations makes a condition Annotations that a target reports small: without a message that no manager of
// ours writes.
func BoundAnnotations(conditions []corev1.PodCondition) {
	const framing = 4 << 10 // for JSON's characters around and in the texts
	for i := range conditions {
		c := &conditions[i]
		if c.Type == v1alpha1.ConditionAnnotations && len(c.Message) > 2*maxAddedAnnotations+framing {
			c.Message = ""
		}
	}
}

// TakenAnnotations says which annotations of a proxy come from its delegate.
type TakenAnnotations struct {
	added addedAnnotations
	mark  string
}

// TakeAnnotations returns what a source that wants these annotations takes from the status of a PodChaperon. A target
// may report anything, so everything else is left out.
func TakeAnnotations(patterns []string, status *corev1.PodStatus) TakenAnnotations {
	var t TakenAnnotations
	var reported addedAnnotations
	c := PodCondition(status.Conditions, v1alpha1.ConditionAnnotations)
	if c == nil || json.Unmarshal([]byte(c.Message), &reported) != nil {
		return t
	}
	wants := sets.New(patterns...)
	valid := func(key string) bool {
		return wanted(wants, key) && len(content.IsLabelKey(strings.ToLower(key))) == 0
	}
	maps.DeleteFunc(reported.Annotations, func(key, _ string) bool { return !valid(key) })
	t.added = bounded(reported.Annotations)
	for _, key := range reported.TooLarge {
		if valid(key) && len(t.added.TooLarge) < maxTooLarge {
			t.added.TooLarge = append(t.added.TooLarge, key)
		}
	}
	if len(t.added.Annotations)+len(t.added.TooLarge) > 0 {
		t.mark = hash(encode(t.added), fingerprintLength)
	}
	return t
}

// TooLarge returns the keys of annotations that have no room, or the first of them.
func (t TakenAnnotations) TooLarge() []string { return t.added.TooLarge }

// In says whether the proxy, perhaps from the cache, has these annotations, and no others of its delegate. A proxy that
// an earlier version marked, without hashes of values, is to be marked anew.
func (t TakenAnnotations) In(proxy *corev1.Pod) bool {
	mark, hashes := parseMark(proxy.Annotations)
	for _, marked := range hashes {
		if marked == "" {
			return false
		}
	}
	return mark == t.mark
}

// Give changes the annotations of a whole proxy. Annotations that the user gave it stay as they are.
func (t TakenAnnotations) Give(proxy *corev1.Pod) {
	annotations := maps.Clone(proxy.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	mark, hashes := parseMark(proxy.Annotations)
	for key := range fromTarget(proxy.Annotations) {
		// An earlier version marked no hash. If the delegate reports what the proxy took, another value is the user's.
		users := hashes[key] == "" && mark == t.mark && annotations[key] != t.added.Annotations[key]
		if !users {
			delete(annotations, key)
		}
	}
	delete(annotations, v1alpha1.AnnotationFromTarget)
	fields := []string{t.mark}
	for _, key := range slices.Sorted(maps.Keys(t.added.Annotations)) {
		if _, users := annotations[key]; !users {
			value := t.added.Annotations[key]
			annotations[key] = value
			fields = append(fields, key, beforeHash+hash(value, valueHashLength))
		}
	}
	if t.mark != "" {
		annotations[v1alpha1.AnnotationFromTarget] = strings.Join(fields, " ")
	}
	proxy.Annotations = annotations
}

// fromTarget returns the keys of a proxy's annotations that come from its delegate. An annotation whose value has
// another hash than the marked one is the user's.
func fromTarget(annotations map[string]string) map[string]bool {
	keys := map[string]bool{}
	_, hashes := parseMark(annotations)
	for key, marked := range hashes {
		value, has := annotations[key]
		if has && (marked == "" || marked == hash(value, valueHashLength)) {
			keys[key] = true
		}
	}
	return keys
}

// parseMark returns the hash of all that a proxy took from its delegate, and the hash of each value by its key. A hash
// is empty if an earlier version wrote the mark.
func parseMark(annotations map[string]string) (mark string, hashes map[string]string) {
	mark, list, _ := strings.Cut(annotations[v1alpha1.AnnotationFromTarget], " ")
	hashes = map[string]string{}
	last := ""
	for field := range strings.FieldsSeq(list) {
		switch of, isHash := strings.CutPrefix(field, beforeHash); {
		case !isHash:
			last = field
			if copied(field) {
				hashes[field] = ""
			}
		case copied(last):
			hashes[last] = of
		}
	}
	return mark, hashes
}
