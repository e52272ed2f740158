package fit

import (
	"maps"
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"
)

// remembered is for how many different constraints a shape remembers which classes match.
const remembered = 1000

// shape is what classes of nodes are, whatever is free there.
type shape struct {
	kinds   []kind
	omitted []string // keys of labels

	mu      sync.RWMutex // guards matches
	matches map[unique.Handle[string]]*match
}

type kind struct {
	labels map[string]string
	taints []corev1.Taint
}

// match says which classes are for a pod. It never changes.
type match struct {
	// sure are the classes that match; unsure, those that may.
	sure, unsure []int
	// reasons of all classes.
	reasons []reason
}

type reason struct {
	affinity verdict
	taint    int // that is not tolerated, or -1
}

func newShape(kinds []kind, omitted []string) *shape {
	return &shape{kinds: kinds, omitted: omitted, matches: map[unique.Handle[string]]*match{}}
}

func (s *shape) match(c *constraints) *match {
	s.mu.RLock()
	found := s.matches[c.id]
	s.mu.RUnlock()
	if found != nil {
		return found
	}
	found = s.compute(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.matches) >= remembered {
		clear(s.matches)
	}
	s.matches[c.id] = found
	return found
}

func (s *shape) compute(c *constraints) *match {
	m := &match{reasons: make([]reason, len(s.kinds))}
	for i := range s.kinds {
		k := &s.kinds[i]
		r := reason{c.match(k.labels, s.omitted), c.untolerated(k.taints)}
		m.reasons[i] = r
		switch {
		case r.taint >= 0:
		case r.affinity == yes:
			m.sure = append(m.sure, i)
		case r.affinity == unknown:
			m.unsure = append(m.unsure, i)
		}
	}
	return m
}

func (s *shape) equal(other *shape) bool {
	return s == other || slices.Equal(s.omitted, other.omitted) && slices.EqualFunc(s.kinds, other.kinds, kind.equal)
}

func (k kind) equal(other kind) bool {
	return maps.Equal(k.labels, other.labels) && slices.EqualFunc(k.taints, other.taints, func(a, b corev1.Taint) bool {
		return a.MatchTaint(&b) && a.Value == b.Value
	})
}
