package fit

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amountOf is a quantity in kube-scheduler's units, rounded up as kube-scheduler does.
func amountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// described is an amount of a resource, for users to read.
func described(q Quantity, kind string) string {
	value := amount(q)
	switch q.Name {
	case corev1.ResourceCPU:
		if q.Amount == 1000 {
			return value + kind + " CPU"
		}
		return value + kind + " CPUs"
	case corev1.ResourceMemory:
		return value + " of" + kind + " memory"
	case corev1.ResourceEphemeralStorage:
		return value + " of" + kind + " ephemeral storage"
	}
	if inBytes(q.Name) {
		return value + " of" + kind + " " + string(q.Name)
	}
	return value + kind + " " + string(q.Name)
}

// amount rounds what is counted in bytes to a tenth of its unit.
func amount(q Quantity) string {
	switch {
	case q.Name == corev1.ResourceCPU:
		return strconv.FormatFloat(float64(q.Amount)/1000, 'f', -1, 64)
	case inBytes(q.Name):
		return bytes(q.Amount)
	}
	return strconv.FormatInt(q.Amount, 10)
}

func inBytes(name corev1.ResourceName) bool {
	return name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage ||
		strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix)
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
