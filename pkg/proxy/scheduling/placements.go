package scheduling

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

// placements knows, by the UID of the proxy, which PodChaperons are in the caches of engaged targets, and who waits
// for news of them. PodChaperons in it are the caches' own and are not to be changed.
type placements struct {
	mu      sync.RWMutex // guards byProxy and all in it
	byProxy map[types.UID]*placement
}

// placement is what is known of one proxy. It goes when nothing is.
type placement struct {
	chaperons map[*target]*v1alpha1.PodChaperon
	// withdrawn are the UIDs of PodChaperons without delegates that we have deleted, which the caches may not have
	// noticed.
	withdrawn map[types.UID]struct{}
	// uncertain is a target that did not answer when it was asked to create a PodChaperon.
	uncertain *target
	waiter    *waiter
}

// waiter is one goroutine's wait for news of a proxy in a target.
type waiter struct {
	target *target
	// news has room for one; whoever receives from it looks at what is known now.
	news chan struct{}
	// The rest is guarded by placements.mu: what became of the proxy, and which PodChaperons were deleted since.
	proxy   proxyState
	deleted map[types.UID]struct{}
}

// proxyState is what became of a proxy while its delegate was placed.
type proxyState int

const (
	proxyPending proxyState = iota
	// proxyBound by somebody else: a leader whose last request was slow.
	proxyBound
	proxyGone
)

func newPlacements() *placements { return &placements{byProxy: map[types.UID]*placement{}} }

// set notes a PodChaperon as it is in the cache.
func (p *placements) set(t *target, chaperon *v1alpha1.PodChaperon) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.gone() {
		return
	}
	of := p.of(proxyUID(chaperon))
	of.chaperons[t] = chaperon
	of.notify()
}

// remove notes that a PodChaperon is gone from the cache, and says whether it held its proxy until now.
func (p *placements) remove(t *target, chaperon *v1alpha1.PodChaperon) (held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	proxy := proxyUID(chaperon)
	of := p.of(proxy)
	if known := of.chaperons[t]; known != nil && known.UID == chaperon.UID {
		_, withdrawn := of.withdrawn[chaperon.UID]
		held = !withdrawn
		delete(of.chaperons, t)
	}
	delete(of.withdrawn, chaperon.UID)
	if of.waiter != nil {
		of.waiter.deleted[chaperon.UID] = struct{}{}
	}
	of.notify()
	p.tidy(proxy, of)
	return held
}

// forgetTarget forgets all of a target that is disengaged, after which set ignores it.
func (p *placements) forgetTarget(t *target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for proxy, of := range p.byProxy {
		delete(of.chaperons, t)
		if of.uncertain == t {
			of.uncertain = nil
		}
		p.tidy(proxy, of)
	}
}

// forgetProxy notes that a proxy is gone or bound: there is nothing left to decide.
func (p *placements) forgetProxy(proxy types.UID, state proxyState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of, ok := p.byProxy[proxy]
	if !ok {
		return
	}
	clear(of.withdrawn)
	of.uncertain = nil
	if of.waiter != nil {
		of.waiter.proxy = state
		of.notify()
	}
	p.tidy(proxy, of)
}

// setUncertain notes whether a target may have a PodChaperon of the proxy that its cache does not show yet.
func (p *placements) setUncertain(proxy types.UID, t *target, uncertain bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of(proxy)
	if uncertain {
		of.uncertain = t
	} else if of.uncertain == t {
		of.uncertain = nil
	}
	p.tidy(proxy, of)
}

// setWithdrawn notes whether a PodChaperon of the proxy, which has no delegate, is deleted, although the cache may show
// it for a while.
func (p *placements) setWithdrawn(proxy, chaperon types.UID, withdrawn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of(proxy)
	if withdrawn {
		of.withdrawn[chaperon] = struct{}{}
	} else {
		delete(of.withdrawn, chaperon)
	}
	p.tidy(proxy, of)
}

// holder finds the reachable target that has, or may have, the proxy's delegate; nil if there is none. A PodChaperon
// that is being deleted does not hold its proxy: if the leader changes while one is withdrawn, the request to withdraw
// it is carried out but not answered, or somebody else deletes it, the next delegate may begin in another target while
// this one ends.
func (p *placements) holder(proxy types.UID) *target {
	p.mu.RLock()
	defer p.mu.RUnlock()
	of, ok := p.byProxy[proxy]
	if !ok {
		return nil
	}
	var holder *target
	for t, chaperon := range of.chaperons {
		if !t.Reachable() || !of.living(chaperon) {
			continue
		}
		if v, _ := decide(chaperon); v == bind {
			return t
		}
		if holder == nil || t.NodeName < holder.NodeName {
			holder = t
		}
	}
	if holder == nil && of.uncertain != nil && of.uncertain.Reachable() {
		return of.uncertain
	}
	return holder
}

// elsewhere returns a living PodChaperon of the proxy in another target that is reachable, if there is one.
func (p *placements) elsewhere(proxy types.UID, t *target) (*target, *v1alpha1.PodChaperon) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	of, ok := p.byProxy[proxy]
	if !ok {
		return nil, nil
	}
	for other, chaperon := range of.chaperons {
		if other.NodeName != t.NodeName && other.Reachable() && of.living(chaperon) {
			return other, chaperon
		}
	}
	return nil, nil
}

// notifyTarget a target's news those who wait for it.
func (p *placements) notifyTarget(t *engage.Target) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for _, of := range p.byProxy {
		if of.waiter != nil && of.waiter.target.Target == t {
			of.notify()
		}
	}
}

// in returns the proxy's living PodChaperon in a target's cache, or nil.
func (p *placements) in(t *target, proxy types.UID) *v1alpha1.PodChaperon {
	p.mu.RLock()
	defer p.mu.RUnlock()
	of, ok := p.byProxy[proxy]
	if !ok || of.chaperons[t] == nil || !of.living(of.chaperons[t]) {
		return nil
	}
	return of.chaperons[t]
}

// startWaiting must be called before the request whose outcome is waited for; stopWaiting ends it.
func (p *placements) startWaiting(proxy types.UID, t *target) *waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiter{target: t, news: make(chan struct{}, 1), deleted: map[types.UID]struct{}{}}
	p.of(proxy).waiter = w
	return w
}

func (p *placements) stopWaiting(proxy types.UID, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of(proxy)
	if of.waiter == w {
		of.waiter = nil
	}
	p.tidy(proxy, of)
}

func (p *placements) proxyState(w *waiter) proxyState {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return w.proxy
}

// look returns the PodChaperon as the cache has it now, or as it was seen before if the cache does not have that very
// one; deleted is true if the cache had it and has it no more.
func (p *placements) look(w *waiter, seen *v1alpha1.PodChaperon) (now *v1alpha1.PodChaperon, deleted bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	_, deleted = w.deleted[seen.UID]
	if of, ok := p.byProxy[proxyUID(seen)]; ok {
		if cached := of.chaperons[w.target]; cached != nil && cached.UID == seen.UID {
			return cached, deleted
		}
	}
	return seen, deleted
}

// of returns what is known of a proxy. It must be called with the lock held.
func (p *placements) of(proxy types.UID) *placement {
	of, ok := p.byProxy[proxy]
	if !ok {
		of = &placement{chaperons: map[*target]*v1alpha1.PodChaperon{}, withdrawn: map[types.UID]struct{}{}}
		p.byProxy[proxy] = of
	}
	return of
}

// tidy must be called with the lock held.
func (p *placements) tidy(proxy types.UID, of *placement) {
	if len(of.chaperons) == 0 && len(of.withdrawn) == 0 && of.uncertain == nil && of.waiter == nil {
		delete(p.byProxy, proxy)
	}
}

func (of *placement) living(chaperon *v1alpha1.PodChaperon) bool {
	_, withdrawn := of.withdrawn[chaperon.UID]
	return !withdrawn && chaperon.DeletionTimestamp.IsZero()
}

func (of *placement) notify() {
	if of.waiter == nil {
		return
	}
	select {
	case of.waiter.news <- struct{}{}:
	default:
	}
}

func proxyUID(chaperon *v1alpha1.PodChaperon) types.UID {
	return types.UID(chaperon.Labels[v1alpha1.LabelParentUID])
}
