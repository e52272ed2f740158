package services

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// grace is how long a copy stays without a reason for it, its original being there.
const grace = 2 * time.Minute

// original is what the source has of one Service.
type original struct {
	service *corev1.Service // nil if there is none
	slices  []*discoveryv1.EndpointSlice
	// exported says that there is a ServiceExport of that name.
	exported bool
}

// standing is how one Service stands towards one target.
type standing struct {
	original original
	proxied  bool // It selects proxies.
	holds    bool // The target has PodChaperons of ours in the namespace.
	copied   bool // There is a copy.
	// idle is since when there has been no reason for the copy, zero if there is one.
	idle time.Time
	now  time.Time
}

type decision struct {
	follow bool
	idle   time.Time
	// wait is until it is time to judge again, zero if that takes an event.
	wait time.Duration
}

// decide says whether a Service is to be in the target. It is pure.
func decide(s standing) decision {
	if !s.original.eligible() {
		return decision{}
	}
	if global(s.original.service) || s.proxied && s.holds {
		return decision{follow: true}
	}
	if !s.copied {
		return decision{}
	}
	return followForGrace(s.idle, s.now)
}

// linger follows without a reason, for a while.
func followForGrace(idle, now time.Time) decision {
	if idle.IsZero() {
		idle = now
	}
	wait := grace - now.Sub(idle)
	if wait <= 0 {
		return decision{idle: idle}
	}
	return decision{follow: true, idle: idle, wait: wait}
}

// eligible says whether the Service is one that may be followed. That of the API server is each cluster's own.
func (o original) eligible() bool {
	switch s := o.service; {
	case s == nil, o.exported, s.Spec.Type == corev1.ServiceTypeExternalName:
		return false
	case s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes":
		return false
	case isCopy(s):
		return false
	default:
		return len(s.Spec.Selector) > 0 || global(s)
	}
}

// isCopy tells the copies that the old system made.
func isCopy(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[v1alpha1.AnnotationIsDelegate]
	return ok
}

// electing says whether the Service selects proxies. When it selects delegates instead, EndpointSlices tell no more; it
// does so as long as there are proxies.
func (o original) electing(virtual func(nodeName string) bool) bool {
	return o.service != nil && rewritten(o.service) || o.proxied(virtual)
}

// proxied says whether some endpoint is a pod on a virtual node.
func (o original) proxied(virtual func(nodeName string) bool) bool {
	for _, slice := range o.slices {
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[i]
			if endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" &&
				virtual(ptr.Deref(endpoint.NodeName, "")) {
				return true
			}
		}
	}
	return false
}
