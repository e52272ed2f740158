package feedback

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	asking "github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// managerPatience is how long the target's manager has to end a delegate before the target's garbage collector is
// asked, too. This does not harm a delegate that takes longer to end: a pod that is being deleted keeps its grace
// period.
const managerPatience = timeouts.ManagerPatience

// sayAgain is how often an event says that a delegate has not ended.
const sayAgain = 10 * time.Minute

// deletesAgain is how long the API server has to delete a proxy whose end is confirmed, before it is asked again.
const deletesAgain = 10 * time.Second

// state is the state of one proxy in one reachable target, from caches.
type state struct {
	target    types.NamespacedName   // the (Cluster)Target
	nodeName  string                 // its virtual node
	keys      *proof.Keys            // nil if they are not known yet
	proxy     *corev1.Pod            // nil if there is none
	chaperons []v1alpha1.PodChaperon // those in the target whose parent has the proxy's name
	asked     []ask                  // the requests to the target's manager
	// last is the proxy's own PodChaperon as it was when it went, or nil if that was not seen.
	last *v1alpha1.PodChaperon
	// forced says whether a proxy that is gone was deleted by force. It may be nil.
	forced func(types.UID) bool
	vet    addresses.Vet // decides which addresses the proxy may show
	now    time.Time
	// changes says whether the target's manager applies changes of PodChaperons, and spares whether it spares withdrawn
	// delegates that have a node.
	changes, spares bool
	// wanted are the annotations that proxies take over.
	wanted []string
	// warned are the warnings of the proxy in this target that need not be recorded, and began is when this process
	// began to lead.
	warned seenWarnings
	began  time.Time
}

// plan holds the next actions, in the order of the fields. The zero plan does nothing.
type plan struct {
	endings []ending
	// prove is a PodChaperon that lacks its marks, or nil.
	prove *v1alpha1.PodChaperon
	// change is the PodChaperon that lacks changes of the proxy, or nil.
	change *v1alpha1.PodChaperon
	// annotations are those that the proxy is to have of its delegate, or nil if it has them.
	annotations *translate.TakenAnnotations
	// status is the proxy's new status, or nil.
	status *corev1.PodStatus
	// warnings are to be recorded, and remembered. It is nil if nothing changed.
	warnings *warnings
	// removal deletes the proxy.
	removal *removal
	// overdue says that the delegate of a terminating proxy should have ended.
	overdue bool
	// wait is the time until the next decision, 0 if only an event can change it.
	wait time.Duration
}

// ending is the end of a delegate and then of its PodChaperon.
type ending struct {
	chaperon *v1alpha1.PodChaperon
	// ifOrphan requires that a live read finds no proxy.
	ifOrphan bool
	// grace is the grace period in seconds, or empty for the delegate's own.
	grace string
	// withdrawn says that placement asked for it. The proxy is not bound, and lives on.
	withdrawn bool
	// spares says that a delegate that has a node is not to end.
	spares bool
	// asked says that the PodChaperon itself shows the request: placement or an earlier leader made it.
	asked bool
	// overdue says that the target's manager did not end the delegate in time.
	overdue bool
}

// removal is the deletion of a proxy.
type removal struct {
	// ifGone requires that a live read finds no PodChaperon.
	ifGone bool
	// ifEnded requires that the target has no delegate any more.
	ifEnded bool
	// of is the PodChaperon that shows why, or empty if it is missing. A live read must not find another one in its
	// place.
	of types.UID
	// status is the proxy's new status just before the deletion, or nil.
	status *corev1.PodStatus
	// grace is the grace period in seconds, or nil for the pod's own.
	grace *int64
	// message explains in an event why the proxy is deleted. It is empty if somebody deleted the proxy in the source.
	message string
}

// decide returns the plan for a state. It is pure.
func decide(s state) plan {
	var p plan
	chaperon := p.others(s)
	if chaperon != nil {
		p.warn(s, chaperon)
	}
	switch {
	case s.proxy == nil || s.proxy.Spec.NodeName != s.nodeName:
	case chaperon == nil:
		p.status, p.removal = s.finalStatus(), removeWithoutChaperon(s)
		if p.removal == nil && halfDeleted(s.proxy) {
			p.waitFor(deletesAgain)
		}
	case s.proxy.DeletionTimestamp != nil:
		p.status = s.statusWhileThere(chaperon)
		p.end(s, ending{chaperon: chaperon, grace: graceOf(s.proxy)})
		p.lookWhenOverdue(s)
	default:
		p.prove = s.unproved(chaperon)
		p.change = s.lacksChanges(chaperon)
		p.annotations = s.lackedAnnotations(chaperon)
		p.status = s.statusWhileThere(chaperon)
		p.removal = removeWithDelegate(s.proxy, chaperon)
		if translate.Finished(s.proxy.Status.Phase) && !finishedByItself(chaperon) {
			p.end(s, ending{chaperon: chaperon})
		}
	}
	return p
}

// others plans for the PodChaperons that do not belong to a proxy which is bound to the target's node, and returns the
// one that does, or nil.
func (p *plan) others(s state) (own *v1alpha1.PodChaperon) {
	for i := range s.chaperons {
		c := &s.chaperons[i]
		switch {
		case s.proxy == nil || gate.ParentOf(c).UID != s.proxy.UID:
			p.end(s, ending{chaperon: c, ifOrphan: true, grace: s.graceOfOrphan(c)})
		case s.proxy.Spec.NodeName == s.nodeName:
			own = c
		case s.proxy.Spec.NodeName != "" || s.proxy.DeletionTimestamp != nil:
			p.end(s, ending{chaperon: c})
		default:
			p.warn(s, c)
			p.endIfAsked(s, c)
		}
	}
	return own
}

// statusWhileThere returns the proxy's new status while its PodChaperon exists, or nil if it stays the same. An end
// after which the delegate may run again is shown when the PodChaperon is gone. A proxy that shows its end is replaced,
// or removed at once, also while the target cannot be asked to leave it at that.
func (s *state) statusWhileThere(chaperon *v1alpha1.PodChaperon) *corev1.PodStatus {
	if mayRunAgain(s.proxy, chaperon) {
		return nil
	}
	return s.changedStatus(chaperon)
}

// mayRunAgain says whether the delegate of a proxy that has not finished ended because somebody deleted it, so that the
// target's manager makes it again unless it hears of the source.
func mayRunAgain(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) bool {
	return translate.Finished(chaperon.Status.Phase) && !finishedByItself(chaperon) &&
		!translate.Finished(proxy.Status.Phase) && podcache.RestartsAlways(proxy)
}

// finishedByItself says whether the delegate of a finished proxy has finished, too, and nobody deleted it before. The
// target's manager makes other delegates again after a while.
func finishedByItself(chaperon *v1alpha1.PodChaperon) bool {
	return translate.Finished(chaperon.Status.Phase) &&
		translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate) == nil
}

// endIfAsked makes sure that the delegate of an unbound proxy ends, if placement withdrew it. After a rollback, the
// target's manager may not know any more what placement wrote.
func (p *plan) endIfAsked(s state, c *v1alpha1.PodChaperon) {
	if translate.ToEnd(c) {
		grace, final := asking.Asked(c)
		p.end(s, ending{chaperon: c, grace: grace, withdrawn: true, spares: !final && s.mustSpare(c)})
	}
}

// end adds the ending to the plan, unless it is under way.
func (p *plan) end(s state, e ending) {
	i := slices.IndexFunc(s.asked, func(a ask) bool {
		return a.chaperon == e.chaperon.UID && a.grace == e.grace && a.spares == e.spares
	})
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
	shown, asked := asking.Asked(e.chaperon)
	e.asked = asked && shown == e.grace || e.spares
	p.endings = append(p.endings, e)
	p.waitFor(managerPatience)
}

// lookWhenOverdue notes that the delegate of a terminating proxy should have ended, or waits until then. The target's
// manager and garbage collector had their time, too.
func (p *plan) lookWhenOverdue(s state) {
	left := s.proxy.DeletionTimestamp.Add(managerPatience + endSlack).Sub(s.now)
	if left > 0 {
		p.waitFor(left)
		return
	}
	p.overdue = true
	p.waitFor(sayAgain)
}

func (p *plan) waitFor(d time.Duration) {
	if p.wait == 0 || d < p.wait {
		p.wait = d
	}
}

// graceOfOrphan returns the grace period of a delegate whose proxy is gone, or an empty string if it is its own. What
// was asked for before stays.
func (s *state) graceOfOrphan(c *v1alpha1.PodChaperon) string {
	if s.forced != nil && s.forced(gate.ParentOf(c).UID) {
		return forcedGrace
	}
	grace, _ := asking.Asked(c)
	return grace
}

// graceOf returns the grace period of the proxy's deletion, or an empty string if it is the delegate's own.
func graceOf(proxy *corev1.Pod) string {
	grace := ptr.Deref(proxy.DeletionGracePeriodSeconds, 0)
	if byForce(proxy) { // A finalizer holds it.
		return forcedGrace
	}
	if grace == 0 ||
		grace == ptr.Deref(proxy.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds) {
		return ""
	}
	return strconv.FormatInt(grace, 10)
}

// finalStatus returns the status of a finished delegate that the proxy's own PodChaperon showed when it went, or nil if
// it showed none, or the proxy shows that already.
func (s *state) finalStatus() *corev1.PodStatus {
	if s.last == nil || !translate.Finished(s.last.Status.Phase) {
		return nil
	}
	return s.changedStatus(s.last)
}

// removeWithoutChaperon returns the removal of a proxy that has no PodChaperon any more, or nil if the proxy has
// finished, or never had one. No live read is necessary if we asked for the end of the PodChaperon: the cache had it
// then, so the cache does not lag.
//
// Somebody in the target may have deleted the PodChaperon in the background. Then the delegate ends later, with its
// grace period. So the proxy is deleted with a grace period, too, and its end is confirmed when the delegate is gone.
func removeWithoutChaperon(s state) *removal {
	proxy := s.proxy
	seen := slices.ContainsFunc(s.asked, func(a ask) bool { return a.parent == proxy.UID })
	r := &removal{ifGone: !seen, ifEnded: !seen || s.mayRunOn(), grace: ptr.To[int64](0)}
	phase := proxy.Status.Phase
	if status := s.finalStatus(); status != nil {
		phase = status.Phase
	}
	switch {
	case proxy.DeletionTimestamp == nil && (translate.Finished(phase) || translate.BoundByHand(proxy)):
		return nil
	case proxy.DeletionTimestamp == nil:
		return &removal{ifGone: !seen, message: "the PodChaperon was deleted in the target cluster"}
	case confirmed(proxy):
		if stuck(proxy, s.now) {
			return r
		}
		return nil
	case !translate.Finished(phase):
		r.status = statusAtEnd(proxy)
	}
	return r
}

// mayRunOn says whether the delegate may run although its PodChaperon, whose end we asked for, is gone: the PodChaperon
// showed a delegate that had a node, and had not finished. Managers of earlier versions do not always show the end.
func (s *state) mayRunOn() bool {
	if s.last == nil || translate.Finished(s.last.Status.Phase) {
		return false
	}
	scheduled := translate.PodCondition(s.last.Status.Conditions, corev1.PodScheduled)
	return s.last.Status.Phase == corev1.PodRunning || scheduled != nil && scheduled.Status == corev1.ConditionTrue
}

// confirmed says whether the deletion of a proxy is confirmed. A finalizer of others holds the proxy then, or the cache
// lags.
func confirmed(proxy *corev1.Pod) bool {
	return ptr.Deref(proxy.DeletionGracePeriodSeconds, 0) == 0 &&
		(translate.Finished(proxy.Status.Phase) || len(proxy.Finalizers) == 0)
}

// halfDeleted says whether the deletion of the proxy is confirmed, and nothing holds the proxy. The API server confirms
// and deletes by two writes. If the request ends between them, because the target is disengaged or the leader ends,
// nobody but us deletes the proxy. Usually only the cache lags.
func halfDeleted(proxy *corev1.Pod) bool {
	return proxy.DeletionTimestamp != nil && confirmed(proxy) && len(proxy.Finalizers) == 0
}

// stuck says whether the deletion of a proxy has been half done for so long that the cache does not just lag.
func stuck(proxy *corev1.Pod, now time.Time) bool {
	return halfDeleted(proxy) && now.Sub(proxy.DeletionTimestamp.Time).Abs() >= deletesAgain
}

// statusAtEnd returns the status that a proxy gets before its end is confirmed, or nil if it stays the same. A proxy
// that a finalizer holds is not to look as if it ran.
func statusAtEnd(proxy *corev1.Pod) *corev1.PodStatus {
	if len(proxy.Finalizers) == 0 || translate.Finished(proxy.Status.Phase) {
		return nil
	}
	status := proxy.Status.DeepCopy()
	status.Phase = corev1.PodFailed
	return status
}

// removeWithDelegate returns the removal of a proxy whose delegate was deleted although the proxy was not, or nil if
// the proxy has finished.
func removeWithDelegate(proxy *corev1.Pod, chaperon *v1alpha1.PodChaperon) *removal {
	if translate.Finished(proxy.Status.Phase) ||
		translate.Finished(chaperon.Status.Phase) && !mayRunAgain(proxy, chaperon) {
		return nil
	}
	lost := translate.PodCondition(chaperon.Status.Conditions, v1alpha1.ConditionDelegate)
	if lost != nil && lost.Status == corev1.ConditionFalse {
		switch lost.Reason {
		case v1alpha1.ReasonDelegateTerminating:
			message := "the delegate pod is being deleted in the target cluster" + disruption(chaperon)
			return &removal{of: chaperon.UID, message: message}
		case v1alpha1.ReasonDelegateFenced: // It may not have ended yet.
			return &removal{of: chaperon.UID, message: lost.Message}
		case v1alpha1.ReasonDelegateRefused:
			return &removal{
				of:      chaperon.UID,
				grace:   ptr.To[int64](0),
				message: "the target cluster refuses to run the delegate pod again: " + lost.Message,
			}
		default:
			// The target makes the delegate again if it does not hear of the source. So the proxy stays until the
			// PodChaperon has ended.
			return &removal{of: chaperon.UID, message: "the delegate pod was deleted in the target cluster"}
		}
	}
	if chaperon.DeletionTimestamp != nil {
		return &removal{of: chaperon.UID, message: "the PodChaperon is being deleted in the target cluster"}
	}
	return nil
}

// disruption says why the target deletes the delegate, if it tells: preemption, eviction or a taint of the node.
func disruption(chaperon *v1alpha1.PodChaperon) string {
	c := translate.PodCondition(chaperon.Status.Conditions, corev1.DisruptionTarget)
	if c == nil || c.Status != corev1.ConditionTrue {
		return ""
	}
	return fmt.Sprintf(": %s: %s", translate.WarningReason(c.Reason), translate.WarningMessage(c.Message))
}

// changedStatus returns the proxy's new status, or nil if it stays the same. Also the addresses that a finished proxy
// keeps are vetted.
func (s *state) changedStatus(chaperon *v1alpha1.PodChaperon) *corev1.PodStatus {
	status := translate.ProxyStatus(s.proxy, chaperon.Status)
	s.showChanges(chaperon, &status)
	addresses.Show(&status, s.proxy.Status, s.vet, metav1.NewTime(s.now))
	if equality.Semantic.DeepEqual(s.proxy.Status, status) {
		return nil
	}
	return &status
}
