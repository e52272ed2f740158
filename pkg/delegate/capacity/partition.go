package capacity

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxClasses is the number of classes in a summary.
	maxClasses = 50
	// maxText is the number of bytes of labels and taints in all classes, and maxOmitted of the names of omitted keys.
	maxText    = 128 << 10
	maxOmitted = 32 << 10
)

// partition divides the shapes into classes.
type partition struct {
	classes []*class
	common  map[string]string
	omitted []string
}

// labelKey describes a key of labels.
type labelKey struct {
	name     string
	values   map[string]struct{}
	nodes    int // the number of nodes with the key
	distinct int // the number of distinct values; a missing key counts as a value
	bytes    int // the size of the label, if all nodes have the same
}

// classify divides the shapes into classes. It omits keys of labels until the classes are within their bounds: the keys
// with the most values first, and among these the keys of the fewest nodes. If this does not help, it leaves out the
// classes of the fewest nodes.
func classify(shapes map[string]*shape) *partition {
	keys := labelKeys(shapes)
	g := newGrouping(shapes, keys)
	varying, _ := slices.BinarySearchFunc(keys, 1, func(k labelKey, n int) int { return cmp.Compare(n, k.distinct) })
	omitted := sort.Search(varying, func(n int) bool { return len(g.group(n)) <= maxClasses })
	groups := g.largest(omitted)
	fits := func(omitted int) bool { return g.bytes(g.largest(omitted), omitted) <= maxText }
	if !fits(omitted) && fits(len(keys)) {
		omitted += sort.Search(len(keys)-omitted, func(n int) bool { return fits(omitted + n) })
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

// labelKeys returns all keys in the order in which they are omitted.
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
		key.distinct = len(key.values)
		if key.nodes < total {
			key.distinct++
		}
		keys = append(keys, *key)
	}
	slices.SortFunc(keys, func(a, b labelKey) int {
		return cmp.Or(cmp.Compare(b.distinct, a.distinct), cmp.Compare(a.nodes, b.nodes), cmp.Compare(a.name, b.name))
	})
	return keys
}

// omittedLabels returns the names of the keys, and the hostname label if there is one, in alphabetical order. If there
// are too many, it returns the keys of the most nodes.
func omittedLabels(shapes map[string]*shape, keys []labelKey) []string {
	var names []string
	for _, s := range shapes {
		if s.hasHostname() {
			names = append(names, corev1.LabelHostname)
			break
		}
	}
	bytes := 0
	byNodes := func(a, b labelKey) int { return cmp.Compare(b.nodes, a.nodes) }
	for _, key := range slices.SortedStableFunc(slices.Values(keys), byNodes) {
		if bytes += len(key.name); bytes > maxOmitted {
			break
		}
		names = append(names, key.name)
	}
	slices.Sort(names)
	return names
}

// grouping finds the shapes that are equal without the first keys. The text of a shape has the labels in the order of
// the keys, and then the taints. So the shape without the first keys is the end of its text.
type grouping struct {
	texts  []shapeText
	common []int // by the number of omitted keys: the bytes of the other labels that all shapes share
}

type shapeText struct {
	shape  *shape
	text   string
	ranks  []int // the ranks of the labels' keys
	starts []int // where each label starts in the text, and the taints
}

func newGrouping(shapes map[string]*shape, keys []labelKey) *grouping {
	g := &grouping{common: make([]int, len(keys)+1)}
	ranks := make(map[string]int, len(keys))
	for i := len(keys) - 1; i >= 0; i-- {
		ranks[keys[i].name] = i
		g.common[i] = g.common[i+1]
		if keys[i].distinct == 1 {
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

// group returns the shapes by the end of their texts.
func (g *grouping) group(omitted int) map[string][]*shape {
	groups := map[string][]*shape{}
	for i := range g.texts {
		first, _ := slices.BinarySearch(g.texts[i].ranks, omitted)
		rest := g.texts[i].text[g.texts[i].starts[first]:]
		groups[rest] = append(groups[rest], g.texts[i].shape)
	}
	return groups
}

// group is the shapes that are equal without the omitted keys.
type group struct {
	text   string
	shapes []*shape
	nodes  int
}

// largest returns the maxClasses groups of the most nodes, the largest first.
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
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.text, b.text))
	})
	return groups[:min(maxClasses, len(groups))]
}

// bytes returns the number of bytes of labels and taints in the groups.
func (g *grouping) bytes(groups []group, omitted int) int {
	bytes := g.common[omitted]
	for _, group := range groups {
		bytes += len(group.text) - g.common[omitted]
	}
	return bytes
}
