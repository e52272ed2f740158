package fit

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amountOf returns a quantity in kube-scheduler's units, rounded up as kube-scheduler does.
func amountOf(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// described returns an amount of a resource, for users to read. The adjective, such as " free", begins with a space.
func described(q Quantity, adjective string) string {
	value := amount(q)
	switch q.Name {
	case corev1.ResourceCPU:
		if q.Amount == 1000 {
			return value + adjective + " CPU"
		}
		return value + adjective + " CPUs"
	case corev1.ResourceMemory:
		return value + " of" + adjective + " memory"
	case corev1.ResourceEphemeralStorage:
		return value + " of" + adjective + " ephemeral storage"
	}
	if inBytes(q.Name) {
		return value + " of" + adjective + " " + string(q.Name)
	}
	return value + adjective + " " + string(q.Name)
}

// amount returns a quantity for users to read. Bytes are rounded to a tenth of their unit.
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
