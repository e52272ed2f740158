package placement

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
)

// Delegates knows, by the UID of the proxy, which PodChaperons are in the caches of engaged targets, and who waits for
// news of them. Its PodChaperons are the caches' own and are not to be changed. It is safe for concurrent use.
type Delegates struct {
	clock clock.PassiveClock

	mu      sync.RWMutex // guards the maps and all in them
	byProxy map[types.UID]*record
	// byName has the proxies of each name of which something is known: one that exists, and earlier ones.
	byName map[types.NamespacedName][]types.UID
	// waits has the proxies that wait until the delegates of earlier ones of their names have ended.
	waits map[types.NamespacedName]types.UID
}

// record is what is known of one proxy. It goes when nothing is.
type record struct {
	// key is the name of the proxy, or empty if it is not known.
	key       types.NamespacedName
	chaperons map[*Target]*v1alpha1.PodChaperon
	// withdrawn are the UIDs of PodChaperons without delegates that we have deleted, which the caches may not have
	// noticed.
	withdrawn map[types.UID]struct{}
	// doubts are about targets that may have a PodChaperon that their caches do not show, by the names of their nodes.
	doubts map[string]doubt
	waiter *waiter
	// left are delegates that may run although their PodChaperons are gone, at most one in a target.
	left []leftover
	// asked is when all targets were asked for such delegates, or zero.
	asked time.Time
	// attempted says that this process tried to place the proxy, concluded that the proxy is bound or gone, and
	// released that it was bound and is gone. Then forced says that somebody deleted it by force, if its delegate runs.
	attempted, concluded, released, forced bool
}

// waiter is one goroutine's wait for news of a proxy in a target.
type waiter struct {
	target *Target
	// news has room for one. Whoever receives from it looks at what is known now.
	news chan struct{}
	// preempts says that the target's scheduler evicts other pods for the delegate. Only the waiting goroutine uses it.
	preempts bool
	// Delegates.mu guards the rest: what became of the proxy, which PodChaperons were deleted in the target since, and
	// whether another target may have room.
	proxy   ProxyState
	deleted deletions
	invited bool
}

// ProxyState is what became of a proxy while its delegate was placed.
type ProxyState int

const (
	proxyPending ProxyState = iota
	// ProxyBound is a proxy that is bound, perhaps by an earlier leader whose last request was slow.
	ProxyBound
	// ProxyGone is a proxy that is deleted or being deleted.
	ProxyGone
)

func newDelegates(c clock.PassiveClock) *Delegates {
	return &Delegates{
		clock:   c,
		byProxy: map[types.UID]*record{},
		byName:  map[types.NamespacedName][]types.UID{},
		waits:   map[types.NamespacedName]types.UID{},
	}
}

// Seen notes a PodChaperon as it is in the target's cache, and says whether nobody waits for this news although the
// proxy may be neither bound nor gone.
func (d *Delegates) Seen(t *Target, chaperon *v1alpha1.PodChaperon) (unattended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t.Gone() {
		return false
	}
	parent := gate.ParentOf(chaperon)
	known := d.recordOf(parent.UID)
	d.name(parent.UID, known, parent.Key)
	if before := known.chaperons[t]; before != nil && before.UID != chaperon.UID {
		known.leave(t, before, d.clock.Now())
	}
	known.chaperons[t] = chaperon
	d.appeared(known, t, chaperon)
	known.notify()
	return known.waiter == nil && !known.concluded
}

// Gone notes that a PodChaperon is gone from the target's cache, and says whether it held its proxy until now. TakeNext
// says who else waited for this.
func (d *Delegates) Gone(t *Target, chaperon *v1alpha1.PodChaperon) (held bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	proxy := ProxyUID(chaperon)
	known := d.recordOf(proxy)
	if cached := known.chaperons[t]; cached != nil && cached.UID == chaperon.UID {
		_, withdrawn := known.withdrawn[chaperon.UID]
		held = !withdrawn
		delete(known.chaperons, t)
		if held {
			known.leave(t, cached, d.clock.Now())
		}
	}
	delete(known.withdrawn, chaperon.UID)
	d.appeared(known, t, chaperon)
	if known.waiter != nil && known.waiter.target == t {
		known.waiter.deleted.add(chaperon.UID)
	}
	known.notify()
	d.tidy(proxy, known)
	return held
}

// ForgetTarget forgets all of a target that is disengaged. Seen ignores the target from then on. The next one, or nil,
// is the same target, engaged anew: it may still carry out what it was asked for before.
func (d *Delegates) ForgetTarget(t, next *Target) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for proxy, known := range d.byProxy {
		delete(known.chaperons, t)
		known.stay(t)
		known.passDoubt(t, next, d.clock.Now())
		d.tidy(proxy, known)
	}
}

// Concluded notes that a proxy is bound or gone: there is nothing left to decide. Who waits for it is notified. What
// another target may have of a proxy that was bound stays known: see Beside.
func (d *Delegates) Concluded(proxy types.UID, state ProxyState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return
	}
	clear(known.withdrawn)
	known.left, known.concluded, known.asked = nil, true, time.Time{}
	if state == ProxyGone && !known.released {
		clear(known.doubts)
	}
	if known.waiter != nil {
		known.waiter.proxy = state
		known.notify()
	}
	d.tidy(proxy, known)
}

// setWithdrawn notes whether a PodChaperon of the proxy, which has no delegate, is deleted, although the cache may show
// it for a while.
func (d *Delegates) setWithdrawn(proxy, chaperon types.UID, withdrawn bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.recordOf(proxy)
	if withdrawn {
		known.withdrawn[chaperon] = struct{}{}
	} else {
		delete(known.withdrawn, chaperon)
	}
	d.tidy(proxy, known)
}

// Holder returns the target that has, or may have, the proxy's delegate, and is not lost. It returns nil if there is
// none. A target that is out of reach for a moment holds its pods, bound or not: their delegates may run.
//
// A PodChaperon that is being deleted holds its proxy, too, unless it has no delegate: the next delegate begins when
// this one has ended. So it makes no difference whether the leader changes while a PodChaperon is withdrawn, or whether
// the request to withdraw it is answered, or whether somebody else deletes it.
func (d *Delegates) Holder(proxy types.UID) *Target {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return nil
	}
	var holder *Target
	for t, chaperon := range known.chaperons {
		if t.Lost() || !known.living(chaperon) && !known.ending(chaperon) {
			continue
		}
		if now, _ := read(chaperon); now == scheduled {
			return t
		}
		if holder == nil || t.NodeName < holder.NodeName {
			holder = t
		}
	}
	if holder == nil {
		return known.doubtful()
	}
	return holder
}

// MayHold says whether a target would hold the proxy if it were not lost: Holder would return it, or another one.
func (d *Delegates) MayHold(t *Target, proxy types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return false
	}
	chaperon := known.chaperons[t]
	return known.doubts[t.NodeName].target == t || chaperon != nil && (known.living(chaperon) || known.ending(chaperon))
}

// ScheduledIn says whether the target's cache shows a living PodChaperon of the proxy whose delegate is scheduled.
func (d *Delegates) ScheduledIn(t *Target, proxy types.UID) bool {
	chaperon := d.in(t, proxy)
	return chaperon != nil && Scheduled(chaperon)
}

// elsewhere returns a living PodChaperon of the proxy in another target that is reachable, if there is one. If its
// delegate is scheduled, the target need not be reachable, as long as it is not lost.
func (d *Delegates) elsewhere(proxy types.UID, t *Target) (*Target, *v1alpha1.PodChaperon) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok {
		return nil, nil
	}
	for other, chaperon := range known.chaperons {
		counts := other.Reachable() || !other.Lost() && Scheduled(chaperon)
		if other.NodeName != t.NodeName && counts && known.living(chaperon) {
			return other, chaperon
		}
	}
	return nil, nil
}

// NotifyTarget wakes those who wait for a target, because the target itself has changed.
func (d *Delegates) NotifyTarget(t *engage.Target) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	for _, known := range d.byProxy {
		if known.waiter != nil && known.waiter.target.Target == t {
			known.notify()
		}
	}
}

// Has says whether the target's cache shows a living PodChaperon of the proxy, whether or not the target is reachable.
func (d *Delegates) Has(t *Target, proxy types.UID) bool { return d.in(t, proxy) != nil }

// in returns the proxy's living PodChaperon in a target's cache, or nil.
func (d *Delegates) in(t *Target, proxy types.UID) *v1alpha1.PodChaperon {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	if !ok || known.chaperons[t] == nil || !known.living(known.chaperons[t]) {
		return nil
	}
	return known.chaperons[t]
}

// startWaiting must be called before the request whose outcome is waited for; stopWaiting ends it.
func (d *Delegates) startWaiting(key types.NamespacedName, proxy types.UID, t *Target) *waiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &waiter{target: t, news: make(chan struct{}, 1)}
	known := d.recordOf(proxy)
	d.name(proxy, known, key)
	known.waiter, known.attempted = w, true
	return w
}

func (d *Delegates) stopWaiting(proxy types.UID, w *waiter) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := d.recordOf(proxy)
	if known.waiter == w {
		known.waiter = nil
	}
	d.tidy(proxy, known)
}

func (d *Delegates) proxyState(w *waiter) ProxyState {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return w.proxy
}

// newsOf returns the channel that has a token when there may be news of a proxy that is being placed, or nil. Whoever
// takes the token must look at everything that it waits for.
func (d *Delegates) newsOf(proxy types.UID) <-chan struct{} {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if known, ok := d.byProxy[proxy]; ok && known.waiter != nil {
		return known.waiter.news
	}
	return nil
}

// isOver says whether the proxy was bound, or has gone, since an attempt to place it began.
func (d *Delegates) isOver(proxy types.UID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	known, ok := d.byProxy[proxy]
	return ok && known.waiter != nil && known.waiter.proxy != proxyPending
}

// latest returns the PodChaperon as the cache has it now, or as it was seen before if the cache does not have that very
// one. The result deleted is true if the cache had it and has it no more.
func (d *Delegates) latest(w *waiter, seen *v1alpha1.PodChaperon) (now *v1alpha1.PodChaperon, deleted bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	deleted = w.deleted.has(seen.UID)
	if known, ok := d.byProxy[ProxyUID(seen)]; ok {
		if cached := known.chaperons[w.target]; cached != nil && cached.UID == seen.UID {
			return cached, deleted
		}
	}
	return seen, deleted
}

// recordOf returns what is known of a proxy. It must be called with the lock held.
func (d *Delegates) recordOf(proxy types.UID) *record {
	known, ok := d.byProxy[proxy]
	if !ok {
		known = &record{chaperons: map[*Target]*v1alpha1.PodChaperon{}, withdrawn: map[types.UID]struct{}{}}
		d.byProxy[proxy] = known
	}
	return known
}

// tidy drops the record if nothing is known any more. It must be called with the lock held.
func (d *Delegates) tidy(proxy types.UID, known *record) {
	if len(known.chaperons) == 0 && len(known.withdrawn) == 0 && len(known.left) == 0 &&
		known.asked.IsZero() && len(known.doubts) == 0 && known.waiter == nil {
		d.forgetName(proxy, known)
		delete(d.byProxy, proxy)
	}
}

func (known *record) living(chaperon *v1alpha1.PodChaperon) bool {
	_, withdrawn := known.withdrawn[chaperon.UID]
	return !withdrawn && !ending.Begun(chaperon)
}

// ending says whether the PodChaperon is being deleted, or is to be, and may have a delegate until it is gone.
func (known *record) ending(chaperon *v1alpha1.PodChaperon) bool {
	_, withdrawn := known.withdrawn[chaperon.UID]
	deleted := !chaperon.DeletionTimestamp.IsZero()
	return !withdrawn && ending.Begun(chaperon) && (!deleted || !childless(chaperon))
}

func (known *record) notify() {
	if known.waiter == nil {
		return
	}
	select {
	case known.waiter.news <- struct{}{}:
	default:
	}
}

// ProxyUID returns the UID of the proxy whose delegate the PodChaperon asks for.
func ProxyUID(chaperon *v1alpha1.PodChaperon) types.UID {
	return gate.ParentOf(chaperon).UID
}
