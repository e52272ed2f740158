package fit

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// With returns the Room that is left when one such pod is placed. The pod takes its requests from the node on which
// kube-scheduler would put it by default: the one that is then the least in use. If the pod fits nowhere, the Room is
// the same. No amount becomes negative, and the sum of all free amounts shrinks by exactly the pod's requests. Devices
// do not become fewer.
func (r *Room) With(d *Demand) *Room {
	if r == nil {
		return nil
	}
	columns, ok := r.columns(d, nil)
	if !ok {
		return r
	}
	m := r.shape.match(&d.constraints)
	at, found := r.emptiest(m.sure, d, columns)
	if !found {
		at, found = r.emptiest(m.unsure, d, columns)
	}
	if !found {
		return r
	}
	changed := &Room{shape: r.shape, names: r.names, classes: slices.Clone(r.classes)}
	changed.classes[at.class] = r.classes[at.class].with(at.vector, d, columns)
	return changed
}

// place is one of the nodes of a vector.
type place struct{ class, vector int }

func (r *Room) emptiest(classes []int, d *Demand, columns []int) (best place, found bool) {
	var most float64
	for _, i := range classes {
		c := r.classes[i]
		if !d.within(c.largest, columns) {
			continue
		}
		for j := range c.free {
			if !d.within(c.free[j].amounts, columns) {
				continue
			}
			if share := r.unused(c, j, d, columns); !found || share > most {
				best, most, found = place{i, j}, share, true
			}
		}
	}
	return best, found
}

// unused returns the share of CPUs and memory that would be free, as kube-scheduler's strategy LeastAllocated counts
// it.
func (r *Room) unused(c *class, j int, d *Demand, columns []int) float64 {
	var sum, resources float64
	for i, name := range r.names {
		if (name != corev1.ResourceCPU && name != corev1.ResourceMemory) || c.allocatable[i] <= 0 {
			continue
		}
		free := c.free[j].amounts[i]
		if k := slices.Index(columns, i); k >= 0 {
			free -= d.quantities[k].Amount
		}
		sum, resources = sum+float64(free)/float64(c.allocatable[i]), resources+1
	}
	return sum / max(resources, 1)
}

// with returns the class with one node less in the vector, and one more node that holds the pod.
func (c *class) with(j int, d *Demand, columns []int) *class {
	taken := vector{1, slices.Clone(c.free[j].amounts)}
	for i, column := range columns {
		if taken.amounts[column] != unlimited {
			taken.amounts[column] -= d.quantities[i].Amount
		}
	}
	changed := &class{nodes: c.nodes, allocatable: c.allocatable, empty: c.empty, free: slices.Clone(c.free)}
	changed.free[j].nodes--
	if changed.free[j].nodes == 0 {
		changed.free = slices.Delete(changed.free, j, j+1)
	}
	same := slices.IndexFunc(changed.free, func(v vector) bool { return slices.Equal(v.amounts, taken.amounts) })
	if same >= 0 {
		changed.free[same].nodes++
	} else {
		changed.free = append(changed.free, taken)
	}
	changed.measure()
	return changed
}

// Roomier says whether a pod may fit that did not fit before. It may be wrong if it says so, and never if it does not.
func (r *Room) Roomier(before *Room) bool {
	if r == nil || before == nil {
		return r != nil
	}
	if !r.shape.equal(before.shape) {
		return true
	}
	columns := make([]int, len(r.names)) // of before
	for i, name := range r.names {
		columns[i] = slices.Index(before.names, name)
	}
	for i, c := range r.classes {
		if c.roomier(before.classes[i], columns) {
			return true
		}
	}
	return false
}

func (c *class) roomier(before *class, columns []int) bool {
	if c == before {
		return false
	}
	if exceeds(c.allocatable, before.allocatable, columns) || exceeds(c.largest, before.largest, columns) {
		return true
	}
	for _, size := range c.empty {
		if !slices.ContainsFunc(before.empty, func(b []int64) bool { return !exceeds(size, b, columns) }) {
			return true
		}
	}
	for i := range c.free {
		v := c.free[i].amounts
		if i < len(before.free) && !exceeds(v, before.free[i].amounts, columns) {
			continue
		}
		if !slices.ContainsFunc(before.free, func(b vector) bool { return !exceeds(v, b.amounts, columns) }) {
			return true
		}
	}
	return false
}

// exceeds says whether an amount is larger than the one in its column before.
func exceeds(amounts, before []int64, columns []int) bool {
	for i, amount := range amounts {
		var was int64
		if columns[i] >= 0 {
			was = before[columns[i]]
		}
		if amount > max(was, 0) {
			return true
		}
	}
	return false
}
