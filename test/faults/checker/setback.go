package checker

import "time"

// setBack says that a cluster forgot what happened since a time.
type setBack struct {
	source bool
	since  time.Time
}

// SetBack notes that a cluster forgets what happened since an earlier time. A target is away, and refuses the source.
// The caller watches it anew, and calls Back when it is back. Pods may run that were ended since, until the cluster has
// been back for some time, or all is at rest. Pods may go that were made or bound since, if that cluster knew them, but
// not those with the label app=kept. All others have to be there again.
func (h *History) SetBack(cluster string, source bool, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.forgets[cluster] = setBack{source: source, since: since}
	h.turnBack(cluster, true)
	for _, d := range h.delegates {
		d.forgotten = d.forgotten || d.cluster == cluster && !d.gone
	}
	if !source {
		return
	}
	for uid, p := range h.proxies {
		switch {
		case p.kept:
			p.unseen = !p.gone
		case p.gone || p.deleting: // It may come back as it was, and go again. Or it was made since, and is nowhere.
			p.unseen, p.phase, p.codes = !p.gone, "", ""
			if !h.mayGo(uid) {
				h.allowed[uid] = allowance{how: wasSetBack}
			}
		case h.forgotProxy(p):
			delete(h.proxies, uid)
		default:
			p.unseen, p.phase, p.codes = true, "", ""
		}
	}
}

// Back notes that a cluster that was set back is there, and that somebody has accepted it.
func (h *History) Back(cluster string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turnBack(cluster, false)
}

func (h *History) turnBack(cluster string, begins bool) {
	h.change(h.blurs, cluster, begins)
	if !h.forgets[cluster].source {
		h.change(h.away, cluster, begins)
		h.change(h.refuses, cluster, begins)
	}
}

// forgot reports whether a cluster was set back since the last rest.
func (h *History) forgot(cluster string) bool {
	_, found := h.forgets[cluster]
	return found
}

// forgotProxy reports whether a cluster that was set back since the last rest forgot a proxy, or its delegate: it was
// made or bound since. API servers tell times in whole seconds.
func (h *History) forgotProxy(p *proxy) bool {
	if p == nil || p.kept {
		return false
	}
	for cluster, s := range h.forgets {
		known := s.source || p.on(cluster) || p.node == ""
		if known && (p.made.Add(time.Second).After(s.since) || p.bound.After(s.since)) {
			return true
		}
	}
	return false
}

// missing notes, at a time of rest, the proxies that a source does not have any more since it was set back.
func (h *History) missing() {
	for uid, p := range h.proxies {
		if p.unseen && !p.gone {
			p.unseen, p.gone = false, true
			h.note(uid, "proxy "+p.name, "not there after its cluster was set back")
			h.goes(uid, p)
		}
	}
}

// rememberAll ends what clusters that were set back excuse. What they forgot does not run any more.
func (h *History) rememberAll() {
	clear(h.forgets)
	for _, d := range h.delegates {
		d.gone = d.gone || d.forgotten
		d.forgotten = false
	}
	for uid, a := range h.allowed {
		if p := h.proxies[uid]; a.how == wasSetBack && p != nil && !p.gone && !p.deleting {
			delete(h.allowed, uid)
		}
	}
}
