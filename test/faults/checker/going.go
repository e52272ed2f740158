package checker

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// How says how somebody asked for the end of a proxy.
type How string

// The ways to ask for the end of a proxy.
const (
	Deleted        How = "somebody deleted it"
	DeletedByForce How = "somebody deleted it by force"
	// DelegateDeleted does not excuse the end of a proxy that had finished before.
	DelegateDeleted How = "somebody deleted its delegate, or its PodChaperon"
	// DelegateDeletedByForce is the same. Nobody waits then for the end of the delegate's containers.
	DelegateDeletedByForce How = "somebody deleted its delegate by force"
	wasSetBack             How = "a cluster was set back"
)

// ofDelegate reports whether somebody asked for the end of the delegate, and not of the proxy.
func (how How) ofDelegate() bool { return how == DelegateDeleted || how == DelegateDeletedByForce }

// allowance is what somebody asked for.
type allowance struct {
	how      How
	finished bool // The proxy had finished before.
	forced   bool // Somebody also deleted the delegate by force.
}

// Allow notes that somebody asked for the end of a proxy, and how.
func (h *History) Allow(uid types.UID, how How) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.allow(uid, how)
}

func (h *History) allow(uid types.UID, how How) {
	before, asked := h.allowed[uid]
	h.note(uid, "the suite", "%s", how)
	forced := before.forced || how == DelegateDeletedByForce
	if asked && (before.how == DeletedByForce || how.ofDelegate()) { // What was asked first says more.
		before.forced = forced
		h.allowed[uid] = before
		return
	}
	p := h.proxies[uid]
	h.allowed[uid] = allowance{how: how, finished: p != nil && Finished(p.phase), forced: forced}
}

// Allowed reports whether somebody asked for the end of a proxy, or of its delegate.
func (h *History) Allowed(uid types.UID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.isAllowed(uid)
}

func (h *History) isAllowed(uid types.UID) bool {
	_, asked := h.allowed[uid]
	return asked || h.forgotProxy(h.proxies[uid])
}

// mayGo reports whether somebody asked for the end of a proxy itself, or of its delegate before it had finished.
func (h *History) mayGo(uid types.UID) bool {
	a, asked := h.allowed[uid]
	return asked && (!a.how.ofDelegate() || !a.finished) || h.forgotProxy(h.proxies[uid])
}

// goes notes that a proxy begins to go, or is gone.
func (h *History) goes(uid types.UID, p *proxy) {
	if h.mayGo(uid) {
		return
	}
	switch a, asked := h.allowed[uid]; {
	case asked && a.how.ofDelegate() && !p.controlled:
		h.violateOf(uid, NoneLost, "proxy %s (%s) had finished, and goes because %s", p.name, uid, a.how)
	case !p.controlled && p.gone:
		h.violateOf(uid, NoneLost, "proxy %s (%s on %q, %s) is gone, and nobody deleted it",
			p.name, uid, p.node, p.phase)
	case p.gone && p.deleting: // Its deletion was looked at when it began.
	case p.lasts && !h.evicted(uid, p):
		h.violateOf(uid, NoneLost, "proxy %s (%s on %q, %s) goes, and nobody asked for it",
			p.name, uid, p.node, p.phase)
	}
}

// drainLags is how long after the end of a drain an API server may evict a pod. kubectl gives a request up sooner.
const drainLags = 30 * time.Second

// evicted reports whether the proxy of a controller goes because somebody drains its node, because Kubernetes ends it
// with its target, or because its target ended its delegate. The product asks for none of these.
func (h *History) evicted(uid types.UID, p *proxy) bool {
	cluster := p.cluster()
	if h.delegateEvicted(uid) {
		return true
	}
	if p.fence > 0 && h.mayBeFenced(uid, p) {
		return true
	}
	drained := func(at time.Time) bool { return h.drains[cluster].any(at, drainLags, func(spell) bool { return true }) }
	if p.gone && !p.deleting { // In a gap of the watch, nobody saw why.
		return drained(h.now()) || h.away[cluster].evicts(h.now(), p.patience)
	}
	switch p.disrupted {
	case evictedByRequest:
		return drained(p.disruptedAt)
	case evictedByTaint:
		return h.away[cluster].evicts(p.disruptedAt, p.patience)
	case evictedByCollector: // Its node is gone, and no leader made it again.
		return h.silent.counts(p.disruptedAt)
	}
	return false
}

// fenceEarly is how much sooner a target may stop a delegate than an outage has lasted as long as the fence. The last
// renewal of the source was up to 12 s before the outage: without one, nothing is at rest.
const fenceEarly = 15 * time.Second

// mayBeFenced reports whether the target of a fenced proxy may have stopped its delegate, because it had not heard of
// the source for long enough.
func (h *History) mayBeFenced(uid types.UID, p *proxy) bool {
	at := h.now()
	for _, d := range h.delegates {
		if d.parent == uid && p.on(d.cluster) && !d.ends.IsZero() {
			at = d.ends
		}
	}
	long := func(s spell) bool { return at.Sub(s.since) >= p.fence-fenceEarly }
	return h.silent.any(at, excusedFor, long) || h.away[p.cluster()].any(at, excusedFor, long)
}

// evicts reports whether Kubernetes may evict a pod that tolerates the loss of its node for some time. The node may
// stay lost for some time after the outage.
func (o *outage) evicts(at time.Time, patience time.Duration) bool {
	return o.any(at, excusedFor, func(s spell) bool {
		lost := s.until.IsZero() || s.until.Sub(s.since) >= lostAfter
		return lost && at.Sub(s.since) >= lostAfter+patience
	})
}

// Drains notes that the suite begins to drain a virtual node, or has ended.
func (h *History) Drains(cluster string, drains bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drains[cluster] == nil {
		h.drains[cluster] = &outage{}
	}
	h.drains[cluster].change(drains, h.now())
}

// Changes notes that somebody scales or rolls out the controller of the pods with this label app. So Kubernetes may
// delete some of them, until all is at rest.
func (h *History) Changes(app string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.changed[app] = true
}

// delegateEvicted reports whether a target evicted a delegate of the proxy.
func (h *History) delegateEvicted(proxy types.UID) bool {
	for _, d := range h.delegates {
		if d.parent == proxy && d.evicted {
			return true
		}
	}
	return false
}

// looksBeforeEnd is how many looks at processes in a row prove that a pod ran after its proxy had gone. The first one
// may have begun before that.
const looksBeforeEnd = 2

// bindingRace is for how long an API server may have taken a pod that is bound for one that is not. It deletes such a
// pod at once, with a grace period of 0, if it read the pod before somebody bound it. Store.Delete in
// k8s.io/apiserver/pkg/registry/generic/registry keeps the grace period that the pod had as it was read first.
const bindingRace = 5 * time.Second

// races reports whether a proxy that goes at once may have been deleted in the moment when it was bound.
func (h *History) races(uid types.UID, p *proxy) bool {
	return h.now().Sub(p.bound) < bindingRace && h.othersDelete(uid, p)
}

// othersDelete reports whether a user or a controller of Kubernetes may have deleted a proxy, and not the product.
func (h *History) othersDelete(uid types.UID, p *proxy) bool {
	if a, asked := h.allowed[uid]; asked && !a.how.ofDelegate() {
		return true
	}
	return p.controlled && (len(h.forgets) > 0 || h.changed[p.app] || h.drains[p.cluster()].counts(h.now()))
}

// endsFirst checks that a proxy that is gone has no delegate that runs.
func (h *History) endsFirst(d *delegate) {
	p, asked := h.proxies[d.parent], h.allowed[d.parent]
	if p == nil || !p.gone || !p.on(d.cluster) || p.raced || asked.how == DeletedByForce || asked.forced ||
		p.disrupted == evictedByCollector && h.silent.counts(p.disruptedAt) || h.forgot(d.cluster) {
		return
	}
	if d.after++; d.after == looksBeforeEnd {
		h.violateOf(d.parent, EndsFirst, "proxy %s (%s) is gone, and its delegate %s in %s runs",
			p.name, d.parent, d.name, d.cluster)
	}
}

// Fenced notes that the source says, by an event, that the delegate of a proxy was surely stopped by its target, which
// is lost. A watch that begins anew shows the event again.
func (h *History) Fenced(event, uid types.UID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.proxies[uid]
	if p == nil || p.fence == 0 || h.fenced[event] {
		return
	}
	h.fenced[event] = true
	lasted := h.unheard(p.cluster())
	if least := p.fence + fenceSlack + p.grace; lasted < least {
		h.violateOf(uid, EndsFirst, "proxy %s on %q counts as fenced after %s, and its delegate may run for %s",
			p.name, p.node, lasted.Round(time.Second), least)
	}
}

// fenceSlack is how much later than the fence and the grace period together a fenced delegate may end: see
// docs/operations.md.
const fenceSlack = time.Minute

// fenceHolds reports whether a pod is fenced and tolerates the loss of its target until it has surely ended. Another
// leader of the target's managers may begin to count meanwhile: see docs/operations.md.
func (p *proxy) fenceHolds() bool {
	return p.fence > 0 && p.patience >= 2*(p.fence+fenceSlack)+p.grace
}

// fenceOf returns after which silence a target stops the delegate of a proxy, or 0.
func fenceOf(pod *corev1.Pod) time.Duration {
	seconds, err := strconv.Atoi(pod.Annotations[v1alpha1.AnnotationFencedAfter])
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

// Why Kubernetes evicts a pod, as its condition DisruptionTarget says.
const (
	evictedByRequest   = "EvictionByEvictionAPI"
	evictedByTaint     = "DeletionByTaintManager"
	evictedByCollector = "DeletionByPodGC"
)

// disruption returns why Kubernetes evicts a pod, or "", and until when at the latest it decided that. The API server
// tells times in whole seconds.
func disruption(pod *corev1.Pod) (why string, at time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason, c.LastTransitionTime.Add(time.Second)
		}
	}
	return "", time.Time{}
}

// endOf returns when somebody asked for the end of a pod, or the zero time.
func endOf(pod *corev1.Pod) time.Time {
	if pod.DeletionTimestamp == nil {
		return time.Time{}
	}
	return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
}

// patienceOf returns how long a pod tolerates the loss of its node.
func patienceOf(pod *corev1.Pod) time.Duration {
	for _, t := range pod.Spec.Tolerations {
		if t.Key == corev1.TaintNodeNotReady && t.TolerationSeconds != nil {
			return time.Duration(*t.TolerationSeconds) * time.Second
		}
	}
	return 0
}
