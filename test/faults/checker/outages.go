package checker

import "time"

// outage has the times in which the source cannot reach a cluster, or is silent there.
type outage struct {
	causes int // how many are going on
	spells []spell
}

// spell is one time without a gap. It has no end while it goes on.
type spell struct{ since, until time.Time }

// covers reports whether an object was made in the spell, or was on its way at the end. API servers tell times in whole
// seconds.
func (s spell) covers(made time.Time) bool {
	return made.Add(time.Second).After(s.since) && (s.until.IsZero() || made.Sub(s.until) <= madeFor)
}

const (
	// excusedFor is the time after the end of an outage in which the product may still be about to put right what came
	// of it: it connects again, which takes longer after several losses, and deletes what runs twice.
	excusedFor = 90 * time.Second
	// madeFor is the time after the end of an outage in which a delegate may be made that was on its way.
	madeFor = 30 * time.Second
	// unseenGap is how soon after an outage another one may begin so that the source sees one outage: it asks a target
	// every ten seconds whether it is healthy, and waits five seconds for the answer.
	unseenGap = 15 * time.Second
	// unknownAfter is how long the source is silent at least before Kubernetes says that it knows nothing of a virtual
	// node.
	unknownAfter = 40 * time.Second
	// lostAfter is how long an outage lasts at least before the source may take the target for lost. It asks three
	// times, at intervals of ten seconds.
	lostAfter = 20 * time.Second
)

// change notes that one more cause of the outage begins, or that one ends.
func (o *outage) change(begins bool, now time.Time) {
	switch {
	case begins:
		o.causes++
		if o.causes == 1 {
			o.begin(now)
		}
	case o.causes > 0:
		o.causes--
		if o.causes == 0 {
			o.spells[len(o.spells)-1].until = now
		}
	}
}

func (o *outage) begin(now time.Time) {
	if n := len(o.spells); n > 0 && now.Sub(o.spells[n-1].until) <= unseenGap {
		o.spells[n-1].until = time.Time{}
		return
	}
	o.spells = append(o.spells, spell{since: now})
}

// forget forgets what is over.
func (o *outage) forget() {
	if o.causes == 0 {
		o.spells = nil
		return
	}
	o.spells = o.spells[len(o.spells)-1:]
}

// any reports whether a time was in a spell that fits, or at most some time after its end.
func (o *outage) any(at time.Time, after time.Duration, fits func(spell) bool) bool {
	if o == nil {
		return false
	}
	for _, s := range o.spells {
		if !at.Before(s.since) && (s.until.IsZero() || at.Sub(s.until) <= after) && fits(s) {
			return true
		}
	}
	return false
}

// counts reports whether the outage goes on at a time, or ended just before.
func (o *outage) counts(at time.Time) bool {
	return o.any(at, excusedFor, func(spell) bool { return true })
}

// lost reports whether the outage lasted for so long that the source may have taken the target for lost.
func (o *outage) lost(at time.Time) bool { return o.lasted(at) >= lostAfter }

// lasted returns how long the outage has lasted, or lasted if it ended just now. Of several, it is the longest.
func (o *outage) lasted(at time.Time) (longest time.Duration) {
	o.any(at, excusedFor, func(s spell) bool {
		end := at
		if !s.until.IsZero() && s.until.Before(at) {
			end = s.until
		}
		longest = max(longest, end.Sub(s.since))
		return false
	})
	return longest
}

// Away notes that the source cannot reach a cluster, or that it can again. The calls of several causes add up.
func (h *History) Away(cluster string, away bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change(h.away, cluster, away)
}

// Refuses notes that a cluster does not accept the source, or that the source lacks what it needs to connect to it. The
// source need not wait then until it takes the cluster for lost. A cluster that refuses may be away, too.
func (h *History) Refuses(cluster string, refuses bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change(h.refuses, cluster, refuses)
}

// Blurs notes that the checker cannot see what happens in a cluster, or sees it again. A cluster that is away is one.
func (h *History) Blurs(cluster string, blurs bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.change(h.blurs, cluster, blurs)
}

func (h *History) change(outages map[string]*outage, cluster string, begins bool) {
	if outages[cluster] == nil {
		outages[cluster] = &outage{}
	}
	outages[cluster].change(begins, h.now())
}

// Silent notes that the source may not renew its Leases, so that targets may fence its pods, or that it does so again.
// A cluster that is away need not be silent, too.
func (h *History) Silent(silent bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.silent.change(silent, h.now())
}

// unheard returns for how long a target may not have heard of the source. It was away, and the source silent before.
func (h *History) unheard(cluster string) time.Duration {
	lasted := h.away[cluster].lasted(h.now())
	if lasted == 0 {
		return 0
	}
	since := h.now().Add(-lasted)
	return lasted + h.silent.lasted(since)
}

// remember ends what outages excuse that are over, and what a cluster that was set back excuses.
func (h *History) remember() {
	for _, outages := range []map[string]*outage{h.away, h.refuses, h.blurs, h.drains} {
		for _, o := range outages {
			o.forget()
		}
	}
	h.silent.forget()
	h.blind.forget()
	clear(h.changed)
	clear(h.unnamed)
	h.rememberAll()
}
