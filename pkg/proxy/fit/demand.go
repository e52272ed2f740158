package fit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	podresource "k8s.io/component-helpers/resource"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Quantity is an amount of a resource in kube-scheduler's units: thousandths of CPUs, and whole units of everything
// else.
type Quantity struct {
	Name   corev1.ResourceName
	Amount int64
}

// Demand is what a delegate requests and requires of a node. It never changes, and is safe for concurrent use.
type Demand struct {
	// quantities are one pod, and the requests that are not zero, in the order of their names.
	quantities  []Quantity
	constraints constraints
}

// NewDemand counts the pod's requests as kube-scheduler does, and parses the constraints of its delegate. The
// constraints must not change any more.
func NewDemand(pod *corev1.Pod, of translate.Constraints) *Demand {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	d := &Demand{quantities: make([]Quantity, 1, len(requests)+1), constraints: newConstraints(of)}
	d.quantities[0] = Quantity{corev1.ResourcePods, 1}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if amount := amountOf(name, requests[name]); amount > 0 && counts(name) {
			d.quantities = append(d.quantities, Quantity{name, amount})
		}
	}
	return d
}

// Quantities returns the pod's requests that are not zero, in the order of their names. They must not be changed.
func (d *Demand) Quantities() []Quantity { return d.quantities[1:] }

// counts says whether kube-scheduler compares requests of the resource.
func counts(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return true
	}
	return schedutil.IsScalarResourceName(name)
}
