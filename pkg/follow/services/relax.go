package services

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// errRelaxed says that the copy of a Service has another traffic distribution than its original.
var errRelaxed = errors.New("the copy has the next best traffic distribution")

// relax gives the copy of a Service a traffic distribution that all targets know, if the target refused the one that it
// has. It returns whether to try again. API servers before 1.34 know PreferClose alone
// (validateServiceTrafficDistribution in pkg/apis/core/validation/validation.go of k8s.io/kubernetes).
func (c *copier) relax(wanted *corev1.Service, refusal error) bool {
	value := ptr.Deref(wanted.Spec.TrafficDistribution, "")
	if value == corev1.ServiceTrafficDistributionPreferClose || !isAbout(refusal, "spec.trafficDistribution") {
		return false
	}
	c.mu.Lock()
	c.unknown.Insert(value)
	c.mu.Unlock()
	c.relaxUnknown(wanted)
	return true
}

// relaxUnknown does the same if the target has refused the value before, in this engagement.
func (c *copier) relaxUnknown(wanted *corev1.Service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unknown.Has(ptr.Deref(wanted.Spec.TrafficDistribution, "")) {
		wanted.Spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	}
}

// relaxed returns an error for users if a copy is not as its original.
func relaxed(original, wanted *corev1.Service) error {
	is, got := ptr.Deref(original.Spec.TrafficDistribution, ""), ptr.Deref(wanted.Spec.TrafficDistribution, "")
	if is == got {
		return nil
	}
	return fmt.Errorf("%w, %s: the target does not know %s, as before Kubernetes 1.34", errRelaxed, got, is)
}

// isAbout says whether an API server refused an object for a field.
func isAbout(err error, field string) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &answer) || answer.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(answer.Status().Details.Causes, func(cause metav1.StatusCause) bool {
		return cause.Field == field
	})
}
