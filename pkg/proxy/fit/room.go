package fit

import (
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// defaultPods is how many pods a node takes if its capacity does not say.
const defaultPods = 110

// unlimited is how much is free of a resource that a DeviceClass provides, on nodes that do not list it. Only the
// target's own scheduler knows how many devices are free.
const unlimited = math.MaxInt64

// Room is the free capacity of a target. A target without a ClusterSummary has a nil Room, in which nothing fits. Rooms
// never change, and are safe for concurrent use.
type Room struct {
	shape *shape
	// names of the resources, in the order of all amounts.
	names   []corev1.ResourceName
	classes []*class // in the order of the shape's kinds
}

// class is one node class: the capacity of its nodes, and their free resources.
type class struct {
	nodes       int
	allocatable []int64
	empty       [][]int64 // of nodes that have only the pods that belong to them
	largest     []int64   // that is free, of each resource by itself
	free        []vector
}

// vector is the free resources of each of some nodes.
type vector struct {
	nodes   int
	amounts []int64
}

// NewRoom compiles a summary, which must not change any more. previous is the Room of the summary before, or nil. The
// parts that have not changed since are taken from previous.
func NewRoom(summary *v1alpha1.ClusterSummary, previous *Room) *Room {
	return newRoom(&summary.Status, previous)
}

// GrowthRoom returns the Room of one empty node of each class that a target can add.
func GrowthRoom(classes []v1alpha1.ScaleUpNodeClass) *Room {
	empty := make([]v1alpha1.NodeClass, len(classes))
	for i := range classes {
		c := &classes[i]
		allocatable := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(defaultPods, resource.DecimalSI)}
		maps.Copy(allocatable, c.Allocatable)
		free := []v1alpha1.FreeNodes{{Nodes: 1, Resources: allocatable}}
		empty[i] = v1alpha1.NodeClass{
			Labels:      c.Labels,
			Taints:      c.Taints,
			Nodes:       1,
			Allocatable: allocatable,
			Free:        free,
		}
	}
	return newRoom(&v1alpha1.ClusterSummaryStatus{OmittedLabels: []string{corev1.LabelHostname}, Classes: empty}, nil)
}

func newRoom(status *v1alpha1.ClusterSummaryStatus, previous *Room) *Room {
	r := &Room{
		shape:   shapeOf(status, previous),
		names:   names(status),
		classes: make([]*class, len(status.Classes)),
	}
	for i := range status.Classes {
		r.classes[i] = newClass(&status.Classes[i], r.names, status.DeviceResources)
	}
	return r
}

func names(status *v1alpha1.ClusterSummaryStatus) []corev1.ResourceName {
	all, classes := map[corev1.ResourceName]struct{}{}, status.Classes
	for _, name := range status.DeviceResources {
		all[corev1.ResourceName(name)] = struct{}{}
	}
	for i := range classes {
		for name := range classes[i].Allocatable {
			all[name] = struct{}{}
		}
		for j := range classes[i].Free {
			for name := range classes[i].Free[j].Resources {
				all[name] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func newClass(published *v1alpha1.NodeClass, names []corev1.ResourceName, devices []string) *class {
	c := &class{
		nodes:       int(published.Nodes),
		allocatable: make([]int64, len(names)),
		free:        make([]vector, 0, len(published.Free)),
	}
	fill(c.allocatable, published.Allocatable, names)
	for _, list := range published.Empty {
		size := make([]int64, len(names))
		fill(size, list, names)
		c.empty = append(c.empty, size)
	}
	if len(c.empty) == 0 {
		c.empty = [][]int64{slices.Clone(c.allocatable)}
	}
	for i := range published.Free {
		if f := &published.Free[i]; f.Nodes > 0 {
			v := vector{int(f.Nodes), make([]int64, len(names))}
			fill(v.amounts, f.Resources, names)
			c.free = append(c.free, v)
		}
	}
	for _, name := range devices {
		c.provide(slices.Index(names, corev1.ResourceName(name)))
	}
	c.measure()
	return c
}

// provide makes the resource of a column unlimited, unless a node lists it: kube-scheduler does not ask DeviceClasses
// for a resource that a node lists.
func (c *class) provide(column int) {
	if c.allocatable[column] > 0 {
		return
	}
	c.allocatable[column] = unlimited
	for _, size := range c.empty {
		size[column] = unlimited
	}
	for i := range c.free {
		c.free[i].amounts[column] = unlimited
	}
}

func fill(amounts []int64, list corev1.ResourceList, names []corev1.ResourceName) {
	for i, name := range names {
		if q, ok := list[name]; ok {
			amounts[i] = amountOf(name, q)
		}
	}
}

// measure computes largest. No amount of it is negative.
func (c *class) measure() {
	c.largest = make([]int64, len(c.allocatable))
	for i := range c.free {
		for j, amount := range c.free[i].amounts {
			c.largest[j] = max(c.largest[j], amount)
		}
	}
}

// Fits says whether one node certainly matches the pod and has room for all its requests.
func (r *Room) Fits(d *Demand) bool {
	if r == nil {
		return false
	}
	var buffer [8]int
	columns, ok := r.columns(d, buffer[:0])
	return ok && r.roomy(r.shape.match(&d.constraints).sure, d, columns)
}

// Unsure says that the pod does not certainly fit, but would fit if the labels that the target omits, or a node's name,
// were as the pod requires.
func (r *Room) Unsure(d *Demand) bool {
	if r == nil {
		return false
	}
	columns, ok := r.columns(d, nil)
	if !ok {
		return false
	}
	m := r.shape.match(&d.constraints)
	return r.roomy(m.unsure, d, columns) && !r.roomy(m.sure, d, columns)
}

// Part returns how near the target comes to holding the pod now: the part of each request that its nearest node has at
// least, from 0 to 1. It is 0 if no node may match.
func (r *Room) Part(d *Demand) float64 {
	if r == nil {
		return 0
	}
	columns, ok := r.columns(d, nil)
	if !ok {
		return 0
	}
	m := r.shape.match(&d.constraints)
	_, part := r.nearest(d, slices.Concat(m.sure, m.unsure), columns)
	return max(0, part)
}

// CouldHold says whether the pod would fit on an empty node of one of the node classes, which has only static pods and
// those of DaemonSets.
func (r *Room) CouldHold(d *Demand) bool {
	return r.hasClass(d, func(c *class, columns []int) bool {
		return slices.ContainsFunc(c.empty, func(size []int64) bool { return d.within(size, columns) })
	})
}

// MayHold says whether the pod may fit on a node from which all pods were evicted, those of DaemonSets, too. It may be
// wrong if it says so, and never if it does not.
func (r *Room) MayHold(d *Demand) bool {
	return r.hasClass(d, func(c *class, columns []int) bool { return d.within(c.allocatable, columns) })
}

// hasClass says whether this is true of a node class that the pod matches, or may match.
func (r *Room) hasClass(d *Demand, holds func(c *class, columns []int) bool) bool {
	if r == nil {
		return false
	}
	columns, ok := r.columns(d, nil)
	if !ok {
		return false
	}
	is := func(i int) bool { return holds(r.classes[i], columns) }
	m := r.shape.match(&d.constraints)
	return slices.ContainsFunc(m.sure, is) || slices.ContainsFunc(m.unsure, is)
}

// columns appends the indices of the demanded resources in the lists of amounts. It returns false if no node has one of
// these resources.
func (r *Room) columns(d *Demand, columns []int) ([]int, bool) {
	for i := range d.quantities {
		column := slices.Index(r.names, d.quantities[i].Name)
		if column < 0 {
			return nil, false
		}
		columns = append(columns, column)
	}
	return columns, true
}

func (r *Room) roomy(classes []int, d *Demand, columns []int) bool {
	for _, i := range classes {
		if r.classes[i].roomy(d, columns) {
			return true
		}
	}
	return false
}

func (c *class) roomy(d *Demand, columns []int) bool {
	if !d.within(c.largest, columns) {
		return false
	}
	for i := range c.free {
		if d.within(c.free[i].amounts, columns) {
			return true
		}
	}
	return false
}

func (d *Demand) within(amounts []int64, columns []int) bool {
	for i, column := range columns {
		if d.quantities[i].Amount > amounts[column] {
			return false
		}
	}
	return true
}
