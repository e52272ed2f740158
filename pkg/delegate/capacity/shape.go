package capacity

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// shape is the set of nodes with the same labels, except hostnames, and the same taints.
type shape struct {
	key     string
	labels  map[string]string
	taints  []corev1.Taint
	nodes   map[*nodeAccount]struct{}
	changed bool // A node or a pod changed since the class was computed.
}

// reshape finds the shape of a node that may have changed, and returns whether the shape is another. The caller holds
// the lock.
func (a *account) reshape(n *nodeAccount) bool {
	var labels map[string]string
	var tainted []corev1.Taint
	if n.real {
		labels, tainted = n.labels, taints(n.node)
		if n.shape != nil && slices.Equal(tainted, n.shape.taints) && sameShape(labels, n.shape.labels) {
			return false
		}
	} else if n.shape == nil {
		return false
	}
	a.moved = true
	if old := n.shape; old != nil {
		n.shape = nil
		old.changed = true
		delete(old.nodes, n)
		if len(old.nodes) == 0 {
			delete(a.shapes, old.key)
		}
	}
	if n.real {
		n.shape = a.shapeOf(labels, tainted)
		n.shape.changed = true
		n.shape.nodes[n] = struct{}{}
	}
	return true
}

func (a *account) shapeOf(labels map[string]string, tainted []corev1.Taint) *shape {
	labels = maps.Clone(labels)
	delete(labels, corev1.LabelHostname)
	key := labelText(labels, slices.Sorted(maps.Keys(labels))) + taintText(tainted)
	s, ok := a.shapes[key]
	if !ok {
		s = &shape{key: key, labels: labels, taints: tainted, nodes: map[*nodeAccount]struct{}{}}
		a.shapes[key] = s
	}
	return s
}

// hasHostname says whether one of the nodes has a hostname label.
func (s *shape) hasHostname() bool {
	for n := range s.nodes {
		if _, ok := n.labels[corev1.LabelHostname]; ok {
			return true
		}
	}
	return false
}

// sameShape compares the labels of a node with the labels of a shape, which have no hostname.
func sameShape(node, shape map[string]string) bool {
	same := 0
	for key, value := range shape {
		if other, ok := node[key]; !ok || other != value {
			return false
		}
		same++
	}
	if _, ok := node[corev1.LabelHostname]; ok {
		same++
	}
	return same == len(node)
}

// labelText returns the labels with these keys, in this order. Keys and values contain none of the separators.
func labelText(labels map[string]string, keys []string) string {
	var b strings.Builder
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			writeLabel(&b, key, value)
		}
	}
	return b.String()
}

func writeLabel(b *strings.Builder, key, value string) {
	b.WriteString(key)
	b.WriteByte('=')
	b.WriteString(value)
	b.WriteByte('\n')
}

func taintText(taints []corev1.Taint) string {
	var b strings.Builder
	for i := range taints {
		b.WriteString("\t" + taints[i].ToString() + "\n")
	}
	return b.String()
}
