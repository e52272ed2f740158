package checker

import "time"

// outage is a time in which the source cannot reach a cluster, or is silent there.
type outage struct {
	causes int // how many are going on
	// since is when it began, and until when it ended. Another one within excusedFor goes on with it.
	since, until time.Time
}

// excusedFor is the time after the end of an outage in which the product may still find what happened in it.
const excusedFor = 90 * time.Second

// change notes that one more cause of the outage begins, or that one ends.
func (o *outage) change(begins bool, now time.Time) {
	switch {
	case begins:
		if o.causes == 0 && (o.since.IsZero() || now.Sub(o.until) > excusedFor) {
			o.since = now
		}
		o.causes++
	case o.causes > 0:
		o.causes--
		o.until = now
	}
}

// counts reports whether the outage goes on, or ended just now.
func (o *outage) counts(now time.Time) bool {
	return o != nil && !o.since.IsZero() && (o.causes > 0 || now.Sub(o.until) <= excusedFor)
}

// lasted returns how long the outage has lasted, or lasted if it ended just now.
func (o *outage) lasted(now time.Time) time.Duration {
	switch {
	case !o.counts(now):
		return 0
	case o.causes > 0:
		return now.Sub(o.since)
	}
	return o.until.Sub(o.since)
}

// Away notes that the source cannot reach a cluster, or that it can again. The calls of several causes add up.
func (h *History) Away(cluster string, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noteAway(cluster, away)
}

func (h *History) noteAway(cluster string, away bool) {
	if h.away[cluster] == nil {
		h.away[cluster] = &outage{}
	}
	h.away[cluster].change(away, h.now())
}

// Silent notes that the source may not renew its Leases, so that targets may fence its pods, or that it does so again.
// A cluster that is away need not be silent, too.
func (h *History) Silent(silent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent.change(silent, h.now())
}

// outOfReach reports whether the source cannot reach a cluster, or could not until now.
func (h *History) outOfReach(cluster string) bool { return h.away[cluster].counts(h.now()) }

// quiet reports whether no cluster is out of reach, and the source is not silent, for some time.
func (h *History) quiet() bool {
	for cluster := range h.away {
		if h.outOfReach(cluster) {
			return false
		}
	}
	return !h.silent.counts(h.now())
}

// remember ends what a cluster that was set back excuses.
func (h *History) remember() {
	clear(h.forgets)
	for uid, a := range h.allowed {
		if p := h.proxies[uid]; a.how == wasSetBack && p != nil && !p.gone && !p.deleting {
			delete(h.allowed, uid)
		}
	}
}
