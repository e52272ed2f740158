package feedback

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// forcedGrace is the grace period, in seconds, of the delegate of a proxy that is deleted by force. Kubelets give the
// containers of such a pod as much.
const forcedGrace = "1"

// forcedFor is how long a proxy that was deleted by force is remembered. Its delegate is asked to end well before.
const forcedFor = time.Minute

// byForce says whether a bound pod that names our scheduler, as it was last seen, is deleted by force, and its
// containers run.
func byForce(proxy *corev1.Pod) bool {
	return proxy.Spec.SchedulerName == v1alpha1.SchedulerName && proxy.Spec.NodeName != "" &&
		proxy.DeletionTimestamp != nil && ptr.Deref(proxy.DeletionGracePeriodSeconds, 1) == 0 &&
		!translate.Finished(proxy.Status.Phase) && !translate.DeletedWhenBound(proxy)
}

// noteForce remembers a proxy that is deleted by force while its target can be reached. A kubelet that cannot be
// reached misses that, too: the containers have the pod's own grace period then.
func (f *Feedback) noteForce(pod *corev1.Pod) {
	reachable := func(to routed) bool { return to.target.NodeName == pod.Spec.NodeName && to.target.Reachable() }
	if byForce(pod) && slices.ContainsFunc(f.queues.All(), reachable) {
		f.forced.Set(pod.UID, nil, forcedFor)
	}
}

// wasForced says whether a proxy that is gone was deleted by force a moment ago.
func (f *Feedback) wasForced(proxy types.UID) bool {
	_, is := f.forced.Get(proxy)
	return is
}
