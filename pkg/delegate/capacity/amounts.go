package capacity

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts are resources in kube-scheduler's units: thousandths of CPUs, and whole units of everything else, rounded up.
type amounts map[corev1.ResourceName]int64

func amountsOf(list corev1.ResourceList) amounts {
	a := make(amounts, len(list)+1)
	for name, quantity := range list {
		if name == corev1.ResourceCPU {
			a[name] = quantity.MilliValue()
			continue
		}
		a[name] = quantity.Value()
	}
	return a
}

// add adds other, and removes what becomes zero: resources that nobody asks for any more are not mentioned.
func (a amounts) add(other amounts, sign int64) {
	for name, amount := range other {
		if sum := a[name] + sign*amount; sum != 0 {
			a[name] = sum
		} else {
			delete(a, name)
		}
	}
}

// list is a ResourceList of the quantities as the API server returns them.
func (a amounts) list() corev1.ResourceList {
	if len(a) == 0 {
		return nil
	}
	list := make(corev1.ResourceList, len(a))
	for name, amount := range a {
		list[name] = quantity(name, amount)
	}
	return list
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
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
}
