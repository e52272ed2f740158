package feedback

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// state is what is known, from caches, of one proxy in one reachable target.
type state struct {
	nodeName  string                 // the target's virtual node
	proxy     *corev1.Pod            // nil if there is none
	chaperons []v1alpha1.PodChaperon // those in the target whose parent has the proxy's name
}

// plan is what to do, in the order of the fields. The zero plan does nothing.
type plan struct {
	// orphans are to be deleted if a live read confirms that their proxy does not exist.
	orphans []*v1alpha1.PodChaperon
	// unwanted are to be deleted.
	unwanted []*v1alpha1.PodChaperon
	// hasten is to be deleted by the target's manager, with a grace period that is not the pod's own.
	hasten *v1alpha1.PodChaperon
	grace  int64
	// status is what the proxy's becomes.
	status *corev1.PodStatus
	// removal deletes the proxy.
	removal *removal
}

// removal is the deletion of a proxy.
type removal struct {
	// ifGone makes it depend on a live read that finds no PodChaperon.
	ifGone bool
	// status is what the proxy's becomes just before.
	status *corev1.PodStatus
	// grace is the grace period in seconds; nil is the pod's own.
	grace *int64
	// message explains in an event why a proxy is deleted that nobody deleted in the source cluster; empty otherwise.
	message string
}

// decide says what is to be done. It is pure.
func decide(s state) plan {
	var p plan
	var chaperon *v1alpha1.PodChaperon
	for i := range s.chaperons {
		c := &s.chaperons[i]
		switch {
		case s.proxy == nil || c.Labels[v1alpha1.LabelParentUID] != string(s.proxy.UID):
			if c.DeletionTimestamp == nil {
				p.orphans = append(p.orphans, c)
			}
		case c.Namespace != s.proxy.Namespace || c.Name != translate.DelegateName(s.proxy):
			// Labels and annotations are easily forged by whoever may write PodChaperons in another namespace of the target.
		case s.proxy.Spec.NodeName == s.nodeName:
			chaperon = c
		case c.DeletionTimestamp == nil && (s.proxy.Spec.NodeName != "" || s.proxy.DeletionTimestamp != nil):
			p.unwanted = append(p.unwanted, c)
		}
	}
	switch {
	case s.proxy == nil || s.proxy.Spec.NodeName != s.nodeName:
	case chaperon == nil:
		p.removal = removeWithoutChaperon(s.proxy)
	case s.proxy.DeletionTimestamp != nil:
		p.status = show(s.proxy, chaperon)
		p.deleteDelegate(s.proxy, chaperon)
	default:
		p.status = show(s.proxy, chaperon)
		p.removal = removeWithDelegate(s.proxy, chaperon)
	}
	return p
}

// removeWithoutChaperon removes a proxy that nothing stands for any more, unless it has finished.
func removeWithoutChaperon(proxy *corev1.Pod) *removal {
	r := &removal{ifGone: true, grace: ptr.To[int64](0)}
	switch {
	case proxy.DeletionTimestamp == nil && terminal(proxy.Status.Phase):
		return nil
	case proxy.DeletionTimestamp == nil:
		r.message = "the PodChaperon was deleted in the target cluster"
	case ptr.Deref(proxy.DeletionGracePeriodSeconds, 0) == 0 && (terminal(proxy.Status.Phase) || len(proxy.Finalizers) == 0):
		return nil // Confirmed already; somebody's finalizer holds it, or the cache is about to lose it.
	}
	if len(proxy.Finalizers) > 0 && !terminal(proxy.Status.Phase) {
		r.status = proxy.Status.DeepCopy()
		r.status.Phase = corev1.PodFailed
	}
	return r
}

// removeWithDelegate removes a proxy that was not deleted itself but whose delegate was, unless it had finished.
func removeWithDelegate(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) *removal {
	if terminal(proxy.Status.Phase) || terminal(chaperon.Status.Phase) {
		return nil
	}
	for _, condition := range chaperon.Status.Conditions {
		if condition.Type != v1alpha1.ConditionDelegate || condition.Status != corev1.ConditionFalse {
			continue
		}
		switch condition.Reason {
		case v1alpha1.ReasonDelegateTerminating:
			return &removal{message: "the delegate pod is being deleted in the target cluster"}
		case v1alpha1.ReasonDelegateRefused:
			return &removal{grace: ptr.To[int64](0), message: "the target cluster refuses to run the delegate pod again: " + condition.Message}
		default:
			return &removal{grace: ptr.To[int64](0), message: "the delegate pod was deleted in the target cluster"}
		}
	}
	if chaperon.DeletionTimestamp != nil {
		return &removal{message: "the PodChaperon is being deleted in the target cluster"}
	}
	return nil
}

// deleteDelegate passes the deletion of a proxy on. A grace period of 0 is not passed on: it says that the source cluster
// does not wait, not that the containers are to be killed.
func (p *plan) deleteDelegate(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) {
	grace := ptr.Deref(proxy.DeletionGracePeriodSeconds, 0)
	if grace != 0 && grace != ptr.Deref(proxy.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds) {
		if chaperon.Annotations[v1alpha1.AnnotationDeletionGracePeriod] != strconv.FormatInt(grace, 10) {
			p.hasten, p.grace = chaperon, grace
		}
		return
	}
	if chaperon.DeletionTimestamp == nil {
		p.unwanted = append(p.unwanted, chaperon)
	}
}

// show returns the status that the proxy is to have, or nil if it has it.
func show(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) *corev1.PodStatus {
	status := translate.ProxyStatus(proxy, chaperon.Status)
	if equality.Semantic.DeepEqual(proxy.Status, status) {
		return nil
	}
	return &status
}

func terminal(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
