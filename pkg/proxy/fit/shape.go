package fit

import (
	"maps"
	"slices"
	"sync"
	"unique"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// remembered is for how many different constraints a shape remembers which classes match.
const remembered = 1000

// shape is the part of a Room that does not depend on free capacity: the kinds of its node classes.
type shape struct {
	common  map[string]string
	omitted []string // keys of labels
	kinds   []nodeKind

	mu      sync.RWMutex // guards matches
	matches map[unique.Handle[string]]*match
}

type nodeKind struct {
	own    map[string]string // labels, beside common ones
	labels map[string]string // with the common ones, set by shapeOf
	taints []corev1.Taint
}

// match says which node classes a pod may use. It never changes.
type match struct {
	// sure are the classes that match, and unsure those that may match.
	sure, unsure []int
	// reasons of all classes.
	reasons []reason
}

type reason struct {
	affinity decision
	taint    int // that is not tolerated, or -1
}

// shapeOf returns the shape of a summary: the very shape of previous if both are equal.
func shapeOf(status *v1alpha1.ClusterSummaryStatus, previous *Room) *shape {
	s := &shape{
		common:  status.CommonLabels,
		omitted: status.OmittedLabels,
		kinds:   make([]nodeKind, len(status.Classes)),
	}
	for i := range status.Classes {
		s.kinds[i] = nodeKind{own: status.Classes[i].Labels, taints: status.Classes[i].Taints}
	}
	if previous != nil && s.equal(previous.shape) {
		return previous.shape
	}
	for i := range s.kinds {
		k := &s.kinds[i]
		k.labels = make(map[string]string, len(s.common)+len(k.own))
		maps.Copy(k.labels, s.common)
		maps.Copy(k.labels, k.own)
	}
	s.matches = map[unique.Handle[string]]*match{}
	return s
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
	return s == other || slices.Equal(s.omitted, other.omitted) && maps.Equal(s.common, other.common) &&
		slices.EqualFunc(s.kinds, other.kinds, nodeKind.equal)
}

func (k nodeKind) equal(other nodeKind) bool {
	return maps.Equal(k.own, other.own) && slices.EqualFunc(k.taints, other.taints, func(a, b corev1.Taint) bool {
		return a.MatchTaint(&b) && a.Value == b.Value
	})
}
