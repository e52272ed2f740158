package capacity

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are amounts of resources in kube-scheduler's units: thousandths of CPUs, and whole units of all other
// resources, rounded up. A resourceNames gives each resource a place in the slice. Amounts beyond the end are zero.
type amounts []int64

// resourceNames gives each resource of the cluster's nodes a place when it first sees the resource. A cluster has a
// handful of resources. Pods can request any number of others, which no node has. They get no place: a tenant could
// have the account grow without end.
type resourceNames struct {
	names  []corev1.ResourceName
	places map[corev1.ResourceName]int
}

// The places of the resources that every cluster has.
const (
	cpu = iota
	memory
	pods
)

func newResourceNames() *resourceNames {
	r := &resourceNames{places: map[corev1.ResourceName]int{}}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		r.place(name)
	}
	return r
}

// place gives a resource a place, unless it has one.
func (r *resourceNames) place(name corev1.ResourceName) {
	if _, ok := r.places[name]; !ok {
		r.places[name] = len(r.names)
		r.names = append(r.names, name)
	}
}

// learn gives the resources of a node a place. Those from the returned place on are new.
func (r *resourceNames) learn(status *corev1.NodeStatus) (firstNew int) {
	firstNew = len(r.names)
	for _, list := range []corev1.ResourceList{status.Capacity, status.Allocatable} {
		for name, quantity := range list {
			if !quantity.IsZero() {
				r.place(name)
			}
		}
	}
	return firstNew
}

// ordered returns all places in a stable order: CPU and memory first, then by the name of the resource.
func (r *resourceNames) ordered() []int {
	places := make([]int, len(r.names))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int {
		if a <= memory || b <= memory {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(r.names[a], r.names[b])
	})
	return places
}

// amounts returns the amounts of those resources that have a place.
func (r *resourceNames) amounts(list corev1.ResourceList) amounts {
	a := make(amounts, 0, len(r.names))
	for name, quantity := range list {
		place, known := r.places[name]
		if !known {
			continue
		}
		value := quantity.Value()
		if name == corev1.ResourceCPU {
			value = quantity.MilliValue()
		}
		if value != 0 {
			a.add(place, value)
		}
	}
	return a
}

// list returns the amounts that are not zero as a ResourceList, with the quantities in the form in which API servers
// return them.
func (r *resourceNames) list(a amounts) corev1.ResourceList {
	var list corev1.ResourceList
	for place, amount := range a {
		if amount == 0 {
			continue
		}
		if list == nil {
			list = make(corev1.ResourceList, len(a))
		}
		list[r.names[place]] = quantity(r.names[place], amount)
	}
	return list
}

func (a amounts) at(place int) int64 {
	if place < len(a) {
		return a[place]
	}
	return 0
}

func (a *amounts) add(place int, amount int64) {
	a.grow(place + 1)
	(*a)[place] += amount
}

func (a *amounts) grow(length int) {
	for len(*a) < length {
		*a = append(*a, 0)
	}
}

func (a *amounts) addAll(other amounts, sign int64) {
	a.grow(len(other))
	for place, amount := range other {
		(*a)[place] += sign * amount
	}
}

// raise raises each amount to the other's, unless it is larger.
func (a *amounts) raise(other amounts) {
	a.grow(len(other))
	for place, amount := range other {
		(*a)[place] = max((*a)[place], amount)
	}
}

func quantity(name corev1.ResourceName, amount int64) resource.Quantity {
	if name == corev1.ResourceCPU {
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	format := resource.DecimalSI
	if binary(name) {
		format = resource.BinarySI
	}
	return *resource.NewQuantity(amount, format)
}

func binary(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
