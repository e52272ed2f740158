package policies

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ReasonNotFollowed is the reason of the event that says that a NetworkPolicy does not apply to delegates.
const ReasonNotFollowed = "NotFollowed"

func (f *Follower) recordNotFollowed(policy *networkingv1.NetworkPolicy, pod string) {
	f.options.Recorder.Eventf(
		policy,
		nil,
		corev1.EventTypeWarning,
		ReasonNotFollowed,
		"Follow",
		"Targets do not apply this policy to the delegates of elected pods that it selects, such as %s: it is not "+
			"copied. Create a policy in the targets that selects the labels of the delegates. Then the annotation %s "+
			"on this policy ends this event",
		pod,
		v1alpha1.AnnotationUseExisting,
	)
}
