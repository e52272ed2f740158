package capacity

import (
	"cmp"
	"slices"
)

// vector is the free amounts on each of some nodes. Compared vectors have their resources in the same order.
type vector struct {
	free  []int64
	nodes int32
}

// unite merges equal vectors, and sorts them: the vectors with the most of the first resource come first. It changes
// the slice.
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

// reduce replaces united vectors with at most limit vectors (two or more), which never exceed the free amounts of their
// nodes. The nodes with the most of each resource keep their vectors, in up to half of the limit. All others are
// grouped, and a group is replaced with the least of each amount. Again and again, reduce splits the group that loses
// the most by this, where the split saves the most.
func reduce(united []vector, limit int) []vector {
	if len(united) <= limit {
		return united
	}
	most := maxima(united)
	exact := largest(united, most, limit/2)
	kept, rest := make([]vector, 0, limit), make([]vector, 0, len(united))
	for i, v := range united {
		if slices.Contains(exact, i) {
			kept = append(kept, v)
		} else {
			rest = append(rest, v)
		}
	}
	groups := []*cluster{newCluster(rest, most)}
	for len(groups) < limit-len(kept) {
		worst := slices.MaxFunc(groups, func(a, b *cluster) int { return cmp.Compare(a.loss, b.loss) })
		if worst.loss == 0 {
			break
		}
		left, right := worst.split()
		*worst = *newCluster(left, most)
		groups = append(groups, newCluster(right, most))
	}
	for _, g := range groups {
		kept = append(kept, vector{g.least, g.nodes})
	}
	return unite(kept)
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

// largest returns the indices of at most limit vectors that have the most of a resource.
func largest(united []vector, most []int64, limit int) []int {
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
