package placement

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// carriedOutWithin is how long after this process has given up a request to create a PodChaperon the target may still
// create it. See package connect/target.
const carriedOutWithin = timeouts.HoldDuration

// doubt says that a target may have a PodChaperon of a proxy that its cache does not show.
type doubt struct {
	target *Target
	// chaperon is the UID of the PodChaperon, or empty if the target was asked to create one, and nobody knows more.
	chaperon types.UID
	// underWay says that the request has not ended. Otherwise unanswered is when it ended without an answer, or zero.
	underWay   bool
	unanswered time.Time
}

// carriedOutLater says whether the target may still create the PodChaperon.
func (u doubt) carriedOutLater(now time.Time) bool {
	return u.underWay || now.Sub(u.unanswered) < carriedOutWithin
}

// ask notes that a target is about to be asked to create a PodChaperon of the proxy. It must be followed by doubt,
// noDoubt or noteUnseen.
func (d *Delegates) ask(proxy types.UID, t *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recordOf(proxy).setDoubt(doubt{target: t, underWay: true})
}

// doubt notes that a target may have a PodChaperon of the proxy that its cache does not show yet, and may still create
// it if it has not answered. A target that is disengaged holds no proxy, but it may be engaged anew by now.
func (d *Delegates) doubt(proxy types.UID, t *Target, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.recordOf(proxy)
	if t = known.present(t); t != nil {
		now := doubt{target: t}
		if !answered {
			now.unanswered = d.clock.Now()
		}
		known.setDoubt(now)
	}
	d.tidy(proxy, known)
}

// noDoubt notes that a target has no PodChaperon of the proxy but that of its cache.
func (d *Delegates) noDoubt(proxy types.UID, t *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known, ok := d.byProxy[proxy]; ok && known.doubts[t.NodeName].target == t {
		delete(known.doubts, t.NodeName)
		d.tidy(proxy, known)
	}
}

// noteUnseen notes that the target has a PodChaperon, unless the cache has shown it. While somebody waits for the
// proxy, PodChaperons that the cache showed before are known, too. A target that was engaged anew while it was asked
// for the PodChaperon has it.
func (d *Delegates) noteUnseen(t *Target, chaperon *v1alpha1.PodChaperon) {
	d.mu.Lock()
	defer d.mu.Unlock()
	proxy := ProxyUID(chaperon)
	known := d.recordOf(proxy)
	deleted := false
	if known.waiter != nil {
		deleted = known.waiter.deleted.has(chaperon.UID)
	}
	if t = known.present(t); t != nil && !deleted {
		if cached := known.chaperons[t]; cached == nil || cached.UID != chaperon.UID {
			known.setDoubt(doubt{target: t, chaperon: chaperon.UID})
		} else {
			delete(known.doubts, t.NodeName)
		}
	}
	d.tidy(proxy, known)
}

// isUncertain says whether an earlier attempt left behind that the target may have a PodChaperon of the proxy.
func (d *Delegates) isUncertain(proxy types.UID, t *Target) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	return ok && known.doubts[t.NodeName].target == t
}

// lastUnanswered returns when the last request to create a PodChaperon of the proxy in the target was given up without
// an answer. It is zero if the request was answered.
func (d *Delegates) lastUnanswered(proxy types.UID, t *Target) time.Time {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.byProxy[proxy]; ok && known.doubts[t.NodeName].target == t {
		return known.doubts[t.NodeName].unanswered
	}
	return time.Time{}
}

// Beside returns the target that may have a PodChaperon of a proxy that its cache does not show, beside the proxy's own
// one on this node, or nil. Lost targets do not count. An earlier leader, say, gave the proxy to another target, and
// this process gave it to the node's target before the cache showed that.
func (d *Delegates) Beside(proxy types.UID, nodeName string) *Target {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.byProxy[proxy]; ok {
		for node, u := range known.doubts {
			if node != nodeName && !u.target.Lost() {
				return u.target
			}
		}
	}
	return nil
}

// present returns the target, or the next engagement of it to which its doubt was passed, or nil if there is none.
func (known *record) present(t *Target) *Target {
	if t.Gone() {
		t = known.doubts[t.NodeName].target
	}
	if t == nil || t.Gone() {
		return nil
	}
	return t
}

// setDoubt replaces what is doubted of the target. It must be called with the lock held.
func (known *record) setDoubt(u doubt) {
	if known.doubts == nil {
		known.doubts = map[string]doubt{}
	}
	known.doubts[u.target.NodeName] = u
}

// doubtful returns a target that may have a PodChaperon that its cache does not show, and is not lost, or nil.
func (known *record) doubtful() *Target {
	var found *Target
	for _, u := range known.doubts {
		if !u.target.Lost() && (found == nil || u.target.NodeName < found.NodeName) {
			found = u.target
		}
	}
	return found
}

// passDoubt forgets the doubt about a target that is disengaged. If it is engaged anew, its cache shows everything but
// what the target carries out later.
func (known *record) passDoubt(t, next *Target, now time.Time) {
	u, ok := known.doubts[t.NodeName]
	switch {
	case !ok || u.target != t:
	case next != nil && next != t && u.chaperon == "" && u.carriedOutLater(now):
		u.target = next
		known.setDoubt(u)
	default:
		delete(known.doubts, t.NodeName)
	}
}

// appeared notes that a target's cache shows, or showed, a PodChaperon. A doubt whether the target creates one has an
// end with it, too, unless the target may do so again: a name has one PodChaperon at a time.
func (d *Delegates) appeared(known *record, t *Target, chaperon *v1alpha1.PodChaperon) {
	u, ok := known.doubts[t.NodeName]
	if !ok || u.target != t {
		return
	}
	if u.chaperon == chaperon.UID || u.chaperon == "" && !u.carriedOutLater(d.clock.Now()) {
		delete(known.doubts, t.NodeName)
	}
}
