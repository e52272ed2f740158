package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// interval is a time in which each look found that a pod runs.
type interval struct {
	first, last time.Time
	look        int // the last one
}

type intervals []interval

// seen returns the intervals after one more look that found that the pod runs.
func (i intervals) seen(look int, at time.Time) intervals {
	if n := len(i); n > 0 && i[n-1].look >= look-1 {
		i[n-1].last, i[n-1].look = at, look
		return i
	}
	return append(i, interval{first: at, last: at, look: look})
}

// begin reports whether only the last look found that the pod runs.
func (i intervals) begin() bool { return len(i) == 1 && i[0].first.Equal(i[0].last) }

// meet returns the last time at which both ran.
func (i intervals) meet(others intervals) (at time.Time, found bool) {
	for _, a := range i {
		for _, b := range others {
			if !a.first.After(b.last) && !b.first.After(a.last) {
				at, found = a.last, true
				if b.last.Before(at) {
					at = b.last
				}
			}
		}
	}
	return at, found
}

// Running notes which pods of the namespace have a process, by their UID.
func (h *History) Running(pods map[types.UID]bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looks++
	var running, begun []*delegate
	for uid := range pods {
		d := h.delegates[uid]
		if d == nil { // It is none, or the watch has not shown it yet.
			h.unnamed[uid] = h.unnamed[uid].seen(h.looks, h.now())
			continue
		}
		if d.ran = d.ran.seen(h.looks, h.now()); d.ran.begin() {
			begun = append(begun, d)
		}
		h.endsFirst(d)
		running = append(running, d)
	}
	h.together(h.now(), running)
	for _, d := range begun {
		h.runsOnce(h.now(), d)
	}
}

// named judges what a delegate did before the watch showed it for the first time.
func (h *History) named(uid types.UID, d *delegate) {
	ran, found := h.unnamed[uid]
	if !found {
		return
	}
	delete(h.unnamed, uid)
	d.ran = append(ran, d.ran...)
	for _, other := range h.delegates {
		if other == d {
			continue
		}
		if at, both := d.ran.meet(other.ran); both {
			h.together(at, []*delegate{d, other})
		}
	}
	h.runsOnce(d.ran[0].first, d)
}

// together judges delegates that ran at the same time.
func (h *History) together(at time.Time, all []*delegate) {
	h.replacedEarly(at, all)
	byProxy := map[types.UID][]*delegate{}
	byOrdinal := map[string][]*delegate{}
	for _, d := range all {
		byProxy[d.parent] = append(byProxy[d.parent], d)
		if p := h.proxies[d.parent]; p != nil && p.ordinal {
			byOrdinal[p.name] = append(byOrdinal[p.name], d)
		}
	}
	for uid, running := range byProxy {
		if len(running) > 1 && !h.forgotten(at, running) && !h.excused(at, uid, running) {
			h.violateOf(uid, OnePerProxy, "%s", h.describe(uid, running))
		}
	}
	for name, running := range byOrdinal {
		parents := map[types.UID]bool{}
		for _, d := range running {
			parents[d.parent] = true
		}
		if len(parents) > 1 && !h.forgotten(at, running) {
			h.violate(OnePerOrdinal, "%s runs as %s", name, places(running))
		}
	}
}

// runsOnce judges a delegate that has begun to run, if another one of its proxy ran before, and does not any more.
// Nobody asked for the end of any, the target of the other one did not evict it, and nobody forgot what has happened.
func (h *History) runsOnce(at time.Time, d *delegate) {
	if len(h.forgets) > 0 || h.isAllowed(d.parent) {
		return
	}
	for _, before := range h.delegates {
		if before.parent != d.parent || before.evicted || len(before.ran) == 0 || !before.ran[0].first.Before(at) {
			continue
		}
		both := []*delegate{before, d}
		if _, met := d.ran.meet(before.ran); !met && !h.excused(at, d.parent, both) {
			h.violateOf(d.parent, RunsOnce, "%s, one after the other", h.describe(d.parent, both))
		}
	}
}

// replacedEarly checks that no pod runs beside a fenced one of the same controller that Kubernetes evicted from a lost
// target, and that it replaces. The fenced one must have tolerated the loss for long enough.
func (h *History) replacedEarly(at time.Time, all []*delegate) {
	for _, d := range all {
		p := h.proxies[d.parent]
		if p == nil || p.ordinal || !p.fenceHolds() || p.disrupted != evictedByTaint {
			continue
		}
		for _, other := range all {
			q := h.proxies[other.parent]
			replaces := q != nil && q.app == p.app && q != p && q.made.After(p.disruptedAt.Add(-2*time.Second))
			if both := []*delegate{d, other}; replaces && !h.forgotten(at, both) {
				h.violateOf(d.parent, OnePerFence, "%s was evicted, and runs beside the next one: %s",
					p.name, places(both))
			}
		}
	}
}

// excused reports whether a second delegate is one that nobody can prevent. Somebody deleted the first one by force. Or
// the proxy was not bound, one of its delegates is in a cluster that the source has lost, or had until now, and the
// last one was made meanwhile. A cluster is lost if it was away for long enough, or refused the source.
func (h *History) excused(at time.Time, uid types.UID, running []*delegate) bool {
	if h.allowed[uid].forced {
		return true
	}
	p := h.proxies[uid]
	var last time.Time
	for _, d := range running {
		if d.made.After(last) {
			last = d.made
		}
	}
	for _, d := range running {
		if p != nil && p.on(d.cluster) {
			continue
		}
		covers := func(s spell) bool { return s.covers(last) }
		lost := func(s spell) bool { return s.covers(last) && last.Sub(s.since) >= lostAfter }
		if h.away[d.cluster].any(at, excusedFor, lost) || h.refuses[d.cluster].any(at, excusedFor, covers) {
			return true
		}
	}
	return false
}

// forgotten reports whether one of the delegates is in a cluster that was set back since the last rest, and came back
// just before at most.
func (h *History) forgotten(at time.Time, running []*delegate) bool {
	return slices.ContainsFunc(running, func(d *delegate) bool {
		return h.forgot(d.cluster) && h.blurs[d.cluster].counts(at)
	})
}

func (h *History) describe(uid types.UID, running []*delegate) string {
	name, node := string(uid), ""
	if p := h.proxies[uid]; p != nil {
		name, node = p.name, p.node
	}
	return fmt.Sprintf("proxy %s on %q runs as %s", name, node, places(running))
}

func places(running []*delegate) string {
	places := make([]string, 0, len(running))
	for _, d := range running {
		places = append(places, d.name+" in "+d.cluster)
	}
	slices.Sort(places)
	return strings.Join(places, " and ")
}
