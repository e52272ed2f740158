package fit

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"unique"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// decision says whether a node matches. The smaller of two decisions is that of both together, the larger that of
// either.
type decision int8

const (
	no decision = iota
	// unknown depends on omitted labels or names.
	unknown
	yes
)

// constraints say on which nodes a pod may be.
type constraints struct {
	// id is the same for the same constraints.
	id unique.Handle[string]
	// selector must match, and one of the terms must match unless terms is nil.
	selector []requirement
	terms    [][]requirement

	nodeSelector map[string]string
	required     *corev1.NodeSelector
	tolerations  []corev1.Toleration
}

// requirement is one expression. If its key is empty, it is about the node's name.
type requirement struct {
	key      string
	affinity nodeaffinity.RequiredNodeAffinity
}

func newConstraints(of translate.Constraints) constraints {
	c := constraints{nodeSelector: of.NodeSelector, tolerations: of.Tolerations}
	if of.Affinity != nil && of.Affinity.NodeAffinity != nil {
		c.required = of.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	sum := sha256.Sum256([]byte(c.encoded())) // The text may be long, and shapes remember a thousand.
	c.id = unique.Make(string(sum[:]))
	for _, key := range slices.Sorted(maps.Keys(c.nodeSelector)) {
		equal := map[string]string{key: c.nodeSelector[key]}
		c.selector = append(c.selector, requirement{key, nodeaffinity.NewRequiredNodeAffinity(equal, nil)})
	}
	if c.required == nil {
		return c
	}
	c.terms = [][]requirement{}
	for i := range c.required.NodeSelectorTerms {
		if t, ok := newTerm(&c.required.NodeSelectorTerms[i]); ok {
			c.terms = append(c.terms, t)
		}
	}
	return c
}

// encoded returns a string that is equal for equal constraints only.
func (c *constraints) encoded() string {
	if len(c.nodeSelector) == 0 && c.required == nil && len(c.tolerations) == 0 {
		return ""
	}
	encoded, err := json.Marshal([]any{c.nodeSelector, c.required, c.tolerations})
	if err != nil {
		panic("encoding constraints: " + err.Error()) // cannot be: they are strings and numbers
	}
	return string(encoded)
}

// newTerm returns false if no node matches the term, because it is empty or cannot be parsed.
func newTerm(term *corev1.NodeSelectorTerm) ([]requirement, bool) {
	if _, err := nodeaffinity.NewNodeSelector(
		&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*term}},
	); err != nil {
		return nil, false
	}
	var all []requirement
	for i := range term.MatchExpressions {
		single := corev1.NodeSelectorTerm{MatchExpressions: term.MatchExpressions[i : i+1]}
		all = append(all, requirement{term.MatchExpressions[i].Key, required(single)})
	}
	if len(term.MatchFields) > 0 {
		all = append(all, requirement{})
	}
	return all, len(all) > 0
}

func required(term corev1.NodeSelectorTerm) nodeaffinity.RequiredNodeAffinity {
	return nodeaffinity.NewRequiredNodeAffinity(nil, &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{term},
		},
	}})
}

// match says whether nodes with these labels match. They may have the omitted labels, too.
func (c *constraints) match(labels map[string]string, omitted []string) decision {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: labels}}
	result := matchAll(c.selector, node, omitted)
	if c.terms == nil {
		return result
	}
	either := no
	for _, t := range c.terms {
		either = max(either, matchAll(t, node, omitted))
	}
	return min(result, either)
}

func matchAll(requirements []requirement, node *corev1.Node, omitted []string) decision {
	result := yes
	for i := range requirements {
		result = min(result, requirements[i].match(node, omitted))
	}
	return result
}

func (r *requirement) match(node *corev1.Node, omitted []string) decision {
	if _, published := node.Labels[r.key]; !published && (r.key == "" || slices.Contains(omitted, r.key)) {
		return unknown
	}
	if ok, err := r.affinity.Match(node); err != nil || !ok {
		return no
	}
	return yes
}

// untolerated returns the index of the first taint that keeps the pod away, or -1.
func (c *constraints) untolerated(taints []corev1.Taint) int {
	taint, found := v1helper.FindMatchingUntoleratedTaint(logr.Discard(), taints, c.tolerations, keepsAway, true)
	if !found {
		return -1
	}
	return slices.Index(taints, taint)
}

func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}
