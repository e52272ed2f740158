package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// maxVectors of free amounts are told in all classes.
const maxVectors = 256

// class is the shapes that are told as one.
type class struct {
	group
	labels map[string]string
	taints []corev1.Taint
	amount *classAmounts // nil before the first computation
}

// classAmounts are what the nodes of a class have.
type classAmounts struct {
	places      int // number of resources
	allocatable amounts
	free        []vector
	share       int                  // how many vectors told has room for
	told        []v1alpha1.FreeNodes // of free
}

func newClass(g group, keys []labelKey) *class {
	c := &class{group: g, taints: g.shapes[0].taints}
	for _, key := range keys {
		if value, ok := g.shapes[0].labels[key.name]; ok {
			if c.labels == nil {
				c.labels = map[string]string{}
			}
			c.labels[key.name] = value
		}
	}
	return c
}

// inherit takes over what was computed for the same shapes.
func (p *partition) inherit(before *partition) {
	old := make(map[string]*class, len(before.classes))
	for _, c := range before.classes {
		old[c.text] = c
	}
	for _, c := range p.classes {
		if o, ok := old[c.text]; ok && slices.Equal(o.shapes, c.shapes) {
			c.amount = o.amount
		}
	}
}

// compute computes what has changed since it did so before: the vectors of the classes whose nodes did, and what of them is told.
func (p *partition) compute(resources *resourceNames) {
	places := resources.ordered()
	wanted := make([]int, len(p.classes))
	for i, c := range p.classes {
		if c.amount == nil || c.amount.places < len(places) || slices.ContainsFunc(c.shapes, func(s *shape) bool { return s.changed }) {
			c.amount = c.sum(places)
		}
		wanted[i] = len(c.amount.free)
	}
	for i, share := range shares(wanted, maxVectors) {
		if c := p.classes[i]; c.amount.told == nil || c.amount.share != share {
			c.amount.share, c.amount.told = share, tell(reduce(c.amount.free, share), places, resources)
		}
	}
}

func (c *class) sum(places []int) *classAmounts {
	sum := &classAmounts{places: len(places)}
	free := make([]vector, 0, c.nodes)
	all := make([]int64, c.nodes*len(places))
	for _, s := range c.shapes {
		s.changed = false
		for n := range s.nodes {
			sum.allocatable.raise(n.allocatable)
			if n.allocatable.at(pods) <= n.requested.at(pods) {
				continue
			}
			row := all[:len(places):len(places)]
			all = all[len(places):]
			n.free(row, places)
			free = append(free, vector{row, 1})
		}
	}
	sum.free = unite(free)
	return sum
}

// tell is the vectors as they are published.
func tell(free []vector, places []int, resources *resourceNames) []v1alpha1.FreeNodes {
	told := make([]v1alpha1.FreeNodes, 0, len(free))
	ordered := make(amounts, len(places))
	for _, v := range free {
		for i, place := range places {
			ordered[place] = v.free[i]
		}
		told = append(told, v1alpha1.FreeNodes{Nodes: v.nodes, Resources: resources.list(ordered)})
	}
	return told
}

// shares divides the total fairly: nobody gets more than is wanted, and nobody less than somebody who wants less.
func shares(wanted []int, total int) []int {
	order := make([]int, len(wanted))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return wanted[a] - wanted[b] })
	got := make([]int, len(wanted))
	for n, i := range order {
		got[i] = min(wanted[i], total/(len(order)-n))
		total -= got[i]
	}
	return got
}
