package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

const (
	// maxSizes is the number of sizes that are listed for a class.
	maxSizes = 4
	// maxCompared bounds the time that it takes to find them.
	maxCompared = 64
)

// sizes are the largest of some nodes: none has at most as much of everything as another one. All have their resources
// in the same order.
type sizes [][]int64

// add adds a copy of the size of a node, unless another one includes it. If there are many, it makes one larger
// instead.
func (s *sizes) add(size []int64) {
	if slices.ContainsFunc(*s, func(other []int64) bool { return includes(other, size) }) {
		return
	}
	*s = slices.DeleteFunc(*s, func(other []int64) bool { return includes(size, other) })
	if len(*s) == maxCompared {
		raise((*s)[0], size)
		return
	}
	*s = append(*s, slices.Clone(size))
}

// raise raises each amount of a size to the other's, unless it is larger.
func raise(size, other []int64) {
	for i, amount := range other {
		size[i] = max(size[i], amount)
	}
}

// includes says whether a size is at least as large as another one in everything.
func includes(size, other []int64) bool {
	for i, amount := range other {
		if amount > size[i] {
			return false
		}
	}
	return true
}

// list returns at most maxSizes sizes in the form of the API, in which no entry is null.
func (s sizes) list(places []int, resources *resourceNames) []corev1.ResourceList {
	var all []corev1.ResourceList
	for _, size := range s.reduce(maxSizes) {
		list := resources.list(inPlaces(size, places))
		if list == nil {
			list = corev1.ResourceList{}
		}
		all = append(all, list)
	}
	return all
}

// reduce returns at most limit sizes, those with the most of the first resource first. The last one has the most of
// each resource of those that are left.
func (s sizes) reduce(limit int) sizes {
	slices.SortFunc(s, func(a, b []int64) int { return slices.Compare(b, a) })
	if len(s) <= limit {
		return s
	}
	for _, size := range s[limit:] {
		raise(s[limit-1], size)
	}
	return s[:limit]
}
