package capacity

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxSizes is the number of sizes in a class.
const maxSizes = 4

// sizes are the largest of some nodes: none has at most as much of everything as another one. All have their resources
// in the same order.
type sizes [][]int64

// add adds a copy of the size of a node, unless another one includes it.
func (s *sizes) add(size []int64) {
	if slices.ContainsFunc(*s, func(other []int64) bool { return includes(other, size) }) {
		return
	}
	*s = slices.DeleteFunc(*s, func(other []int64) bool { return includes(size, other) })
	*s = append(*s, slices.Clone(size))
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

// reduce returns at most limit sizes, those with the most of the first resource first. The last one may have the most
// of each resource of several sizes.
func (s sizes) reduce(limit int) sizes {
	slices.SortFunc(s, func(a, b []int64) int { return slices.Compare(b, a) })
	if len(s) <= limit {
		return s
	}
	last := s[limit-1]
	for _, size := range s[limit:] {
		for i, amount := range size {
			last[i] = max(last[i], amount)
		}
	}
	return s[:limit]
}
