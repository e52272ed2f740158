package capacity

import (
	"cmp"
	"slices"
)

// vector is amounts that are free together on each of some nodes. All vectors that are compared have their resources in the same order.
type vector struct {
	free  []int64
	nodes int32
}

// unite makes one of equal vectors and orders them, those with the most of the first resources first. It changes the slice.
func unite(all []vector) []vector {
	slices.SortFunc(all, func(a, b vector) int { return slices.Compare(b.free, a.free) })
	united := all[:0]
	for _, v := range all {
		if last := len(united) - 1; last >= 0 && slices.Equal(united[last].free, v.free) {
			united[last].nodes += v.nodes
			continue
		}
		united = append(united, v)
	}
	return united
}

// reduce tells united vectors by at most so many, two or more, whose nodes are at least as free as they say. The nodes with the most of each resource
// stay as they are, as far as half of the room goes. All others are grouped, and a group is told by the least of each amount: again and
// again, the group that loses the most by that is split in two where that saves the most.
func reduce(united []vector, limit int) []vector {
	if len(united) <= limit {
		return united
	}
	most := maxima(united)
	fullest := fullest(united, most, limit/2)
	told, rest := make([]vector, 0, limit), make([]vector, 0, len(united))
	for i, v := range united {
		if slices.Contains(fullest, i) {
			told = append(told, v)
		} else {
			rest = append(rest, v)
		}
	}
	groups := []*cluster{newCluster(rest, most)}
	for len(groups) < limit-len(told) {
		worst := slices.MaxFunc(groups, func(a, b *cluster) int { return cmp.Compare(a.loss, b.loss) })
		if worst.loss == 0 {
			break
		}
		left, right := worst.split()
		*worst = *newCluster(left, most)
		groups = append(groups, newCluster(right, most))
	}
	for _, g := range groups {
		told = append(told, vector{g.least, g.nodes})
	}
	return unite(told)
}

func maxima(all []vector) []int64 {
	most := slices.Clone(all[0].free)
	for _, v := range all {
		for i, amount := range v.free {
			most[i] = max(most[i], amount)
		}
	}
	return most
}

// fullest is the indices of at most so many vectors, each of which has the most of a resource.
func fullest(united []vector, most []int64, limit int) []int {
	var indices []int
	for column, amount := range most {
		if amount == 0 {
			continue
		}
		index := slices.IndexFunc(united, func(v vector) bool { return v.free[column] == amount })
		if !slices.Contains(indices, index) && len(indices) < limit {
			indices = append(indices, index)
		}
	}
	return indices
}
