package scheduling

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// capacity knows, in memory, what room targets have for single pods.
type capacity interface {
	// fits says why the target has no place for a pod now, for users to read; it is empty if it may have one.
	fits(demand *demand, t *target) string
}

// demand is what a pod asks for, computed once per scheduling cycle.
type demand struct {
	// quantities are the requests that are not zero, by name.
	quantities []quantity
}

type quantity struct {
	name corev1.ResourceName
	resource.Quantity
}

// newDemand counts a pod's requests as kube-scheduler does.
func newDemand(pod *corev1.Pod) *demand {
	requests := podresource.PodRequests(pod, podresource.PodResourcesOptions{})
	d := &demand{quantities: make([]quantity, 0, len(requests))}
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if q := requests[name]; !q.IsZero() {
			d.quantities = append(d.quantities, quantity{name, q})
		}
	}
	return d
}

// largestFree is the capacity that compares each request by itself with the most that is free of it on one node.
type largestFree struct{}

func (largestFree) fits(d *demand, t *target) string {
	summary := t.summary.Load()
	if summary == nil {
		return "its capacity is not known yet"
	}
	largest := summary.Status.LargestFree
	if pods, ok := largest[corev1.ResourcePods]; ok && pods.Sign() <= 0 {
		return "no node takes another pod"
	}
	for i := range d.quantities {
		wanted := &d.quantities[i]
		if free := largest[wanted.name]; free.Cmp(wanted.Quantity) < 0 {
			return fmt.Sprintf("no node has %s (largest: %s)", freeAmount(wanted), amount(wanted.name, free))
		}
	}
	return ""
}

func freeAmount(q *quantity) string {
	value := amount(q.name, q.Quantity)
	switch q.name {
	case corev1.ResourceCPU:
		if value == "1" {
			return "1 free CPU"
		}
		return value + " free CPUs"
	case corev1.ResourceEphemeralStorage:
		return value + " of free ephemeral storage"
	case corev1.ResourceMemory:
		return value + " of free memory"
	default:
		return value + " free " + string(q.name)
	}
}

// amount rounds what is counted in bytes to a tenth of its unit.
func amount(name corev1.ResourceName, q resource.Quantity) string {
	switch name {
	case corev1.ResourceCPU:
		return strconv.FormatFloat(float64(q.MilliValue())/1000, 'f', -1, 64)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return bytes(q.Value())
	default:
		return q.String()
	}
}

func bytes(n int64) string {
	value, unit := float64(n), ""
	for _, next := range []string{"Ki", "Mi", "Gi", "Ti", "Pi"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	return strconv.FormatFloat(float64(int64(value*10))/10, 'f', -1, 64) + unit
}

// roomier says whether a target may take now what it did not take before: more nodes, nodes of another kind, or more
// that is free, in one place or altogether.
func roomier(before, after *v1alpha1.ClusterSummary) bool {
	if before == nil || after == nil {
		return after != nil
	}
	return after.Status.Nodes > before.Status.Nodes ||
		!maps.Equal(after.Labels, before.Labels) ||
		anyGreater(after.Allocatable, before.Allocatable) ||
		anyGreater(after.Status.LargestFree, before.Status.LargestFree) ||
		anyGreater(before.Status.Requested, after.Status.Requested)
}

func anyGreater(a, b corev1.ResourceList) bool {
	for name, q := range a {
		if q.Cmp(b[name]) > 0 {
			return true
		}
	}
	return false
}
