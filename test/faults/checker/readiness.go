package checker

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lagsFor is how long ago a delegate may have been Ready that its proxy begins to show as Ready.
const lagsFor = excusedFor

// restLags is how long ago a delegate may have been Ready whose proxy shows it at a time of rest.
const restLags = 10 * time.Second

// readiness is whether a pod is Ready.
type readiness struct {
	ready bool
	since time.Time // as its kubelet says, in whole seconds
	until time.Time // when it was seen to be Ready last, if it is not
}

// readinessOf returns whether a pod is Ready, given what was known of it.
func readinessOf(pod *corev1.Pod, was readiness, now time.Time) readiness {
	is := readiness{until: was.until}
	if was.ready {
		is.until = now
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			is.ready, is.since = true, c.LastTransitionTime.Time
		}
	}
	return is
}

// showsReady notes that a proxy begins to show that it is Ready, or shows it no more. If its delegate does not, the
// checker's watch of the target may be late. So it waits for the time at which the delegate became Ready.
func (h *History) showsReady(uid types.UID, p *proxy, was readiness) {
	if !p.ready {
		delete(h.invented, uid)
		return
	}
	if was.ready || h.blurred(p) {
		return
	}
	for _, d := range h.delegates {
		if d.parent == uid && p.on(d.cluster) && (d.ready || h.now().Sub(d.until) <= lagsFor) {
			return
		}
	}
	h.invented[uid] = h.now()
}

// blurred reports whether the checker may see the proxy's delegate too late: it cannot see its cluster, or could not
// until now. A source that was set back shows what the backup has.
func (h *History) blurred(p *proxy) bool {
	cluster := p.cluster()
	return h.shownOfThePast(cluster) || h.away[cluster].counts(h.now()) || h.blurs[cluster].counts(h.now())
}

// shownOfThePast reports whether what is shown of a cluster may be of the past: it was set back since the last rest, or
// the source was.
func (h *History) shownOfThePast(cluster string) bool {
	for name, s := range h.forgets {
		if s.source || name == cluster {
			return true
		}
	}
	return false
}

// isReady notes that a delegate is Ready. The clusters are on one machine, and have one clock.
func (h *History) isReady(d *delegate) {
	p, shown := h.proxies[d.parent], h.invented[d.parent]
	if p == nil || shown.IsZero() || !d.ready || !p.on(d.cluster) {
		return
	}
	delete(h.invented, d.parent)
	if d.since.After(shown) {
		h.violate(Readiness, "proxy %s showed that it was Ready at %s, and its delegate was since %s",
			p.name, shown.Format("15:04:05.000"), d.since.Format(time.TimeOnly))
	}
}

// inventions checks, at a time of rest, that no proxy shows that it is Ready whose delegate is not, or never was. One
// that has changed just now may not have told its proxy.
func (h *History) inventions() {
	for uid := range h.invented {
		if p := h.proxies[uid]; p != nil && !p.gone && !p.deleting {
			h.violate(Readiness, "proxy %s shows that it is Ready, and its delegate never was", p.name)
		}
	}
	clear(h.invented)
	for _, d := range h.delegates {
		p := h.proxies[d.parent]
		if p == nil || p.gone || p.deleting || d.gone || d.forgotten || !p.on(d.cluster) ||
			h.now().Sub(d.until) < restLags {
			continue
		}
		if p.ready && !d.ready {
			h.violate(Readiness, "proxy %s shows that it is Ready, and its delegate is not", p.name)
		}
	}
}
