package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// maxVectors is the number of vectors of free amounts in all classes together.
const maxVectors = 256

// class is a group of shapes that a summary shows as one node class.
type class struct {
	group
	labels map[string]string
	taints []corev1.Taint
	amount *classAmounts // nil before the first computation
}

// classAmounts are the amounts of the nodes of a class.
type classAmounts struct {
	places      int // the number of resources
	allocatable amounts
	empty       []corev1.ResourceList
	free        []vector
	share       int                  // the bound of listed
	listed      []v1alpha1.FreeNodes // free, reduced to the share
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

// inherit takes over the amounts of classes of the same shapes.
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

// compute computes the amounts of classes whose nodes changed, and divides the vectors among all classes.
func (p *partition) compute(resources *resourceNames) {
	places := resources.ordered()
	wanted := make([]int, len(p.classes))
	for i, c := range p.classes {
		changed := slices.ContainsFunc(c.shapes, func(s *shape) bool { return s.changed })
		if changed || c.amount == nil || c.amount.places < len(places) {
			c.amount = c.sum(places, resources)
		}
		wanted[i] = len(c.amount.free)
	}
	for i, share := range shares(wanted, maxVectors) {
		if c := p.classes[i]; c.amount.listed == nil || c.amount.share != share {
			c.amount.share, c.amount.listed = share, freeNodes(reduce(c.amount.free, share), places, resources)
		}
	}
}

// sum gathers the amounts of the nodes of the class.
func (c *class) sum(places []int, resources *resourceNames) *classAmounts {
	sum := &classAmounts{places: len(places)}
	var sizes sizes
	size := make([]int64, len(places))
	free := make([]vector, 0, c.nodes)
	all := make([]int64, c.nodes*len(places))
	for _, s := range c.shapes {
		s.changed = false
		for n := range s.nodes {
			sum.allocatable.raise(n.allocatable)
			n.empty(size, places)
			sizes.add(size)
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
	sum.empty = sizes.list(places, resources)
	if len(sum.empty) == 1 && equality.Semantic.DeepEqual(sum.empty[0], resources.list(sum.allocatable)) {
		sum.empty = nil
	}
	return sum
}

// inPlaces returns amounts that are in the order of places.
func inPlaces(ordered []int64, places []int) amounts {
	a := make(amounts, len(places))
	for i, place := range places {
		a[place] = ordered[i]
	}
	return a
}

// freeNodes returns the vectors in the form of the API.
func freeNodes(free []vector, places []int, resources *resourceNames) []v1alpha1.FreeNodes {
	listed := make([]v1alpha1.FreeNodes, 0, len(free))
	for _, v := range free {
		listed = append(listed, v1alpha1.FreeNodes{Nodes: v.nodes, Resources: resources.list(inPlaces(v.free, places))})
	}
	return listed
}

// shares divides the total fairly: nobody gets more than wanted, and nobody gets less than another who wants less.
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
