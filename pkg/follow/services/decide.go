package services

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// grace is how long a copy stays without a reason for it, while its original exists. A rollout by re-creation may
// delete the last PodChaperon of a namespace for a moment.
const grace = 2 * time.Minute

// original is everything that the source has of one Service.
type original struct {
	service *corev1.Service // nil if the source has none
	slices  []*discoveryv1.EndpointSlice
	// exported says that the source has a ServiceExport of that name.
	exported bool
}

// standing is everything that decides whether one Service goes to one target.
type standing struct {
	original original
	proxied  bool // The Service selects proxies.
	holds    bool // The target has PodChaperons of ours in the namespace.
	copied   bool // There is a copy. It may have no pods for a while: scaled to zero, say.
	awaited  bool // A pod that is about to go to the target waits for the copy.
	// idle is the time since which there is no reason for the copy. It is zero if there is one.
	idle time.Time
	now  time.Time
}

type decision struct {
	follow bool
	idle   time.Time
	// wait is the time until the next decision. It is zero if only an event can change the decision.
	wait time.Duration
}

// decide says whether a Service goes to the target. It is pure.
func decide(s standing) decision {
	if !s.original.eligible() {
		return decision{}
	}
	// Clients in the target know the address of a copy, and a recreated copy would have another.
	if global(s.original.service) || s.holds && (s.proxied || s.copied || s.awaited) {
		return decision{follow: true}
	}
	if s.awaited { // The pod may not come.
		return followForGrace(s.now, s.now)
	}
	if !s.copied {
		return decision{}
	}
	return followForGrace(s.idle, s.now)
}

// followForGrace follows for a while without a reason.
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

// eligible says whether the Service may be followed.
func (o original) eligible() bool {
	return o.followable() && (len(o.service.Spec.Selector) > 0 || global(o.service))
}

// followable says whether the annotation global makes the Service eligible. The Service of the API server is each
// cluster's own.
func (o original) followable() bool {
	switch s := o.service; {
	case s == nil, o.exported, s.Spec.Type == corev1.ServiceTypeExternalName:
		return false
	case s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes":
		return false
	default:
		return !isCopy(s)
	}
}

// isCopy says whether the old system made the object as a copy.
func isCopy(o metav1.Object) bool {
	_, ok := o.GetAnnotations()[v1alpha1.AnnotationIsDelegate]
	return ok
}

// electing says whether the Service selects proxies. If its selector was rewritten, it selects delegates, and
// EndpointSlices do not show proxies any more. It stays rewritten only as long as there are proxies.
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
