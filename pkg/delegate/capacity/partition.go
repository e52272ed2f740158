package capacity

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxClasses are told at most.
	maxClasses = 50
	// maxText is how many bytes of labels and taints are told in all classes, and maxOmitted of keys that are omitted.
	maxText    = 128 << 10
	maxOmitted = 32 << 10
)

// partition says which shapes are told as one class.
type partition struct {
	classes []*class
	common  map[string]string
	omitted []string
}

// labelKey is what is known about a key of labels.
type labelKey struct {
	name   string
	values map[string]struct{}
	nodes  int // that have it
	kinds  int // distinct values, none being one of them
	bytes  int // of the label, where all nodes have the same
}

// classify makes classes of the shapes: it leaves out keys of labels, those with the most values first, of these those that the
// fewest nodes have, until the classes are within their bounds. Where that does not help, the classes of the fewest nodes are left out.
func classify(shapes map[string]*shape) *partition {
	keys := labelKeys(shapes)
	g := newGrouping(shapes, keys)
	varying, _ := slices.BinarySearchFunc(keys, 1, func(k labelKey, kinds int) int { return cmp.Compare(kinds, k.kinds) })
	omitted := sort.Search(varying, func(n int) bool { return len(g.group(n)) <= maxClasses })
	groups := g.largest(omitted)
	if g.bytes(groups, omitted) > maxText && g.bytes(g.largest(len(keys)), len(keys)) <= maxText {
		omitted += sort.Search(len(keys)-omitted, func(n int) bool { return g.bytes(g.largest(omitted+n), omitted+n) <= maxText })
		groups = g.largest(omitted)
	}
	for len(groups) > 0 && g.bytes(groups, omitted) > maxText {
		groups = groups[:len(groups)-1]
	}
	p := &partition{common: map[string]string{}, omitted: omittedLabels(shapes, keys[:omitted])}
	for _, key := range keys[max(omitted, varying):] {
		for value := range key.values {
			p.common[key.name] = value
		}
	}
	for _, group := range groups {
		p.classes = append(p.classes, newClass(group, keys[omitted:max(omitted, varying)]))
	}
	slices.SortFunc(p.classes, func(a, b *class) int { return cmp.Compare(a.text, b.text) })
	return p
}

// labelKeys is all keys, in the order in which they are left out.
func labelKeys(shapes map[string]*shape) []labelKey {
	byName := map[string]*labelKey{}
	total := 0
	for _, s := range shapes {
		total += len(s.nodes)
		for name, value := range s.labels {
			key, ok := byName[name]
			if !ok {
				key = &labelKey{name: name, values: map[string]struct{}{}}
				byName[name] = key
			}
			key.values[value] = struct{}{}
			key.nodes += len(s.nodes)
			key.bytes = len(name) + len(value) + 2
		}
	}
	keys := make([]labelKey, 0, len(byName))
	for _, key := range byName {
		key.kinds = len(key.values)
		if key.nodes < total {
			key.kinds++
		}
		keys = append(keys, *key)
	}
	slices.SortFunc(keys, func(a, b labelKey) int {
		return cmp.Or(cmp.Compare(b.kinds, a.kinds), cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.name, b.name))
	})
	return keys
}

// omittedLabels is the hostname, if there is one, and the keys, in alphabetical order. If there are too many, those that the most nodes
// have are named.
func omittedLabels(shapes map[string]*shape, keys []labelKey) []string {
	var names []string
	for _, s := range shapes {
		if s.hasHostname() {
			names = append(names, corev1.LabelHostname)
			break
		}
	}
	bytes := 0
	for _, key := range slices.SortedStableFunc(slices.Values(keys), func(a, b labelKey) int { return cmp.Compare(b.nodes, a.nodes) }) {
		if bytes += len(key.name); bytes > maxOmitted {
			break
		}
		names = append(names, key.name)
	}
	slices.Sort(names)
	return names
}

// grouping finds the shapes that are the same when the first keys are left out. Its texts have the labels in the order of keys, then
// the taints: what is told of a shape is the end of its text.
type grouping struct {
	texts  []shapeText
	common []int // by number of keys left out: bytes of the rest that all shapes have
}

type shapeText struct {
	shape  *shape
	text   string
	ranks  []int // of its labels' keys
	starts []int // of its labels in the text, and of the taints
}

func newGrouping(shapes map[string]*shape, keys []labelKey) *grouping {
	g := &grouping{common: make([]int, len(keys)+1)}
	ranks := make(map[string]int, len(keys))
	for i := len(keys) - 1; i >= 0; i-- {
		ranks[keys[i].name] = i
		g.common[i] = g.common[i+1]
		if keys[i].kinds == 1 {
			g.common[i] += keys[i].bytes
		}
	}
	for _, s := range shapes {
		t := shapeText{shape: s, ranks: make([]int, 0, len(s.labels)), starts: make([]int, 0, len(s.labels)+1)}
		for name := range s.labels {
			t.ranks = append(t.ranks, ranks[name])
		}
		slices.Sort(t.ranks)
		var b strings.Builder
		b.Grow(len(s.key))
		for _, rank := range t.ranks {
			t.starts = append(t.starts, b.Len())
			writeLabel(&b, keys[rank].name, s.labels[keys[rank].name])
		}
		t.starts = append(t.starts, b.Len())
		b.WriteString(taintText(s.taints))
		t.text = b.String()
		g.texts = append(g.texts, t)
	}
	return g
}

// group is the shapes by the end of their texts.
func (g *grouping) group(omitted int) map[string][]*shape {
	groups := map[string][]*shape{}
	for i := range g.texts {
		first, _ := slices.BinarySearch(g.texts[i].ranks, omitted)
		rest := g.texts[i].text[g.texts[i].starts[first]:]
		groups[rest] = append(groups[rest], g.texts[i].shape)
	}
	return groups
}

// group is shapes that are told as one.
type group struct {
	text   string
	shapes []*shape
	nodes  int
}

// largest is the groups of the most nodes, as many as may be told, largest first.
func (g *grouping) largest(omitted int) []group {
	var groups []group
	for text, shapes := range g.group(omitted) {
		nodes := 0
		for _, s := range shapes {
			nodes += len(s.nodes)
		}
		slices.SortFunc(shapes, func(a, b *shape) int { return cmp.Compare(a.key, b.key) })
		groups = append(groups, group{text, shapes, nodes})
	}
	slices.SortFunc(groups, func(a, b group) int { return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.text, b.text)) })
	return groups[:min(maxClasses, len(groups))]
}

// bytes is how much the groups tell.
func (g *grouping) bytes(groups []group, omitted int) int {
	bytes := g.common[omitted]
	for _, group := range groups {
		bytes += len(group.text) - g.common[omitted]
	}
	return bytes
}
