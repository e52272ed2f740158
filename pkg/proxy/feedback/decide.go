package feedback

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// managerPatience is how long the target's manager has to end a delegate before the target's garbage collector is asked, too.
// That does no harm to a delegate that takes longer to end: what is being deleted already keeps its grace period.
const managerPatience = 30 * time.Second

// state is what is known, from caches, of one proxy in one reachable target.
type state struct {
	nodeName  string                 // the target's virtual node
	proxy     *corev1.Pod            // nil if there is none
	chaperons []v1alpha1.PodChaperon // those in the target whose parent has the proxy's name
	asked     []ask                  // of the target's manager
	now       time.Time
}

// plan is what to do, in the order of the fields. The zero plan does nothing.
type plan struct {
	endings []ending
	// status is what the proxy's becomes.
	status *corev1.PodStatus
	// removal deletes the proxy.
	removal *removal
	// wait is until it is time to decide again.
	wait time.Duration
}

// ending is the end of a delegate and then of its PodChaperon.
type ending struct {
	chaperon *v1alpha1.PodChaperon
	// ifOrphan makes it depend on a live read that finds no proxy.
	ifOrphan bool
	// grace is the delegate's grace period in seconds; empty is its own.
	grace string
	// overdue says that the target's manager did not do it.
	overdue bool
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
			p.end(s, ending{chaperon: c, ifOrphan: true})
		case c.Namespace != s.proxy.Namespace || c.Name != translate.DelegateName(s.proxy):
			// Labels and annotations are easily forged by whoever may write PodChaperons in another namespace of the
			// target.
		case s.proxy.Spec.NodeName == s.nodeName:
			chaperon = c
		case s.proxy.Spec.NodeName != "" || s.proxy.DeletionTimestamp != nil:
			p.end(s, ending{chaperon: c})
		}
	}
	switch {
	case s.proxy == nil || s.proxy.Spec.NodeName != s.nodeName:
	case chaperon == nil:
		p.removal = removeWithoutChaperon(s)
	case s.proxy.DeletionTimestamp != nil:
		p.status = changedStatus(s.proxy, chaperon)
		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})
	default:
		p.status = changedStatus(s.proxy, chaperon)
		p.removal = removeWithDelegate(s.proxy, chaperon)
	}
	return p
}

// end has a delegate ended unless that is under way.
func (p *plan) end(s state, e ending) {
	i := slices.IndexFunc(s.asked, func(a ask) bool { return a.chaperon == e.chaperon.UID && a.grace == e.grace })
	if e.chaperon.DeletionTimestamp != nil && (i >= 0 || e.grace == "") {
		return
	}
	if i >= 0 {
		if waited := s.now.Sub(s.asked[i].at); waited < managerPatience {
			p.waitFor(managerPatience - waited)
			return
		}
		e.overdue = true
	}
	p.endings = append(p.endings, e)
	p.waitFor(managerPatience)
}

func (p *plan) waitFor(d time.Duration) {
	if p.wait == 0 || d < p.wait {
		p.wait = d
	}
}

// graceOf is the grace period that the deletion of a proxy asks for, if it is not the delegate's own. One of 0 is not
// passed on: it says that the source cluster does not wait, not that the containers are to be killed.
func graceOf(proxy *corev1.Pod) string {
	grace := ptr.Deref(proxy.DeletionGracePeriodSeconds, 0)
	if grace == 0 ||
		grace == ptr.Deref(proxy.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds) {
		return ""
	}
	return strconv.FormatInt(grace, 10)
}

// removeWithoutChaperon removes a proxy that nothing stands for any more, unless it has finished. That the cache is
// behind is out of the question where it had the PodChaperon whose end we asked for.
func removeWithoutChaperon(s state) *removal {
	proxy := s.proxy
	seen := slices.ContainsFunc(s.asked, func(a ask) bool { return a.parent == proxy.UID })
	r := &removal{ifGone: !seen, grace: ptr.To[int64](0)}
	switch {
	case proxy.DeletionTimestamp == nil && finished(proxy.Status.Phase):
		return nil
	case proxy.DeletionTimestamp == nil:
		r.message = "the PodChaperon was deleted in the target cluster"
	case ptr.Deref(proxy.DeletionGracePeriodSeconds, 0) == 0 &&
		(finished(proxy.Status.Phase) || len(proxy.Finalizers) == 0):
		return nil // Confirmed already; somebody's finalizer holds it, or the cache is about to lose it.
	}
	if len(proxy.Finalizers) > 0 && !finished(proxy.Status.Phase) {
		r.status = proxy.Status.DeepCopy()
		r.status.Phase = corev1.PodFailed
	}
	return r
}

// removeWithDelegate removes a proxy that was not deleted itself but whose delegate was, unless it had finished.
func removeWithDelegate(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) *removal {
	if finished(proxy.Status.Phase) || finished(chaperon.Status.Phase) {
		return nil
	}
	lost := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
	if lost != nil && lost.Status == corev1.ConditionFalse {
		switch lost.Reason {
		case v1alpha1.ReasonDelegateTerminating:
			return &removal{message: "the delegate pod is being deleted in the target cluster"}
		case v1alpha1.ReasonDelegateRefused:
			return &removal{
				grace:   ptr.To[int64](0),
				message: "the target cluster refuses to run the delegate pod again: " + lost.Message,
			}
		default:
			return &removal{grace: ptr.To[int64](0), message: "the delegate pod was deleted in the target cluster"}
		}
	}
	if chaperon.DeletionTimestamp != nil {
		return &removal{message: "the PodChaperon is being deleted in the target cluster"}
	}
	return nil
}

// changedStatus returns the status that the proxy is to have, or nil if it has it.
func changedStatus(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) *corev1.PodStatus {
	status := translate.ProxyStatus(proxy, chaperon.Status)
	if equality.Semantic.DeepEqual(proxy.Status, status) {
		return nil
	}
	return &status
}

func finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}
