package feedback

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
)

// ends remembers the PodChaperons of a target as they were last seen, by the names of their proxies, and one of each
// proxy. The events of a delegate's last status and of its PodChaperon's end can come together, and the latter has no
// status behind the gate. The objects are those of the cache. Orphans are not remembered: they hold no pod.
type ends struct {
	// since is when the target was engaged.
	since time.Time

	mu      sync.Mutex // guards byProxy
	byProxy map[types.NamespacedName][]*v1alpha1.PodChaperon
}

// note remembers a PodChaperon as it is, in place of an earlier one of its proxy. A target may show any number of them,
// one after another: all have the same name, and the proof does not say which UID is the right one.
func (e *ends) note(chaperon *v1alpha1.PodChaperon) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.byProxy == nil {
		e.byProxy = map[types.NamespacedName][]*v1alpha1.PodChaperon{}
	}
	parent := gate.ParentOf(chaperon)
	kept := butThatOf(e.byProxy[parent.Key], parent.UID)
	if !parent.Orphan {
		kept = append(kept, chaperon)
	}
	e.keep(parent.Key, kept)
}

// forget forgets the PodChaperon of a proxy.
func (e *ends) forget(proxy gate.Parent) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(proxy.Key, butThatOf(e.byProxy[proxy.Key], proxy.UID))
}

// butThatOf returns the PodChaperons but that of the proxy with a UID.
func butThatOf(chaperons []*v1alpha1.PodChaperon, proxy types.UID) []*v1alpha1.PodChaperon {
	return slices.DeleteFunc(chaperons, func(c *v1alpha1.PodChaperon) bool { return gate.ParentOf(c).UID == proxy })
}

// keep must be called with the lock held.
func (e *ends) keep(proxy types.NamespacedName, kept []*v1alpha1.PodChaperon) {
	if len(kept) == 0 {
		delete(e.byProxy, proxy)
		return
	}
	e.byProxy[proxy] = kept
}

// of returns the PodChaperon that the proxy of a state had in the target and has no more, or nil. It forgets those that
// are gone and that were not the proxy's own.
func (e *ends) of(proxy types.NamespacedName, s state) *v1alpha1.PodChaperon {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var last *v1alpha1.PodChaperon
	kept := slices.DeleteFunc(e.byProxy[proxy], func(c *v1alpha1.PodChaperon) bool {
		if slices.ContainsFunc(s.chaperons, func(is v1alpha1.PodChaperon) bool { return is.UID == c.UID }) {
			return false
		}
		own := s.proxy != nil && s.proxy.UID == gate.ParentOf(c).UID && s.proxy.Spec.NodeName == s.nodeName
		if own {
			last = c
		}
		return !own
	})
	e.keep(proxy, kept)
	return last
}

// has says whether a proxy has a PodChaperon in the target, or had one until just now.
func (e *ends) has(proxy types.NamespacedName, uid types.UID) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.byProxy[proxy], func(c *v1alpha1.PodChaperon) bool {
		return gate.ParentOf(c).UID == uid
	})
}

// allEnds has what is remembered of the engaged targets.
type allEnds struct {
	clock clock.PassiveClock

	mu       sync.Mutex // guards byTarget
	byTarget map[*engage.Target]*ends
}

func (a *allEnds) of(target *engage.Target) *ends {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byTarget == nil {
		a.byTarget = map[*engage.Target]*ends{}
	}
	if a.byTarget[target] == nil {
		a.byTarget[target] = &ends{since: a.clock.Now()}
	}
	return a.byTarget[target]
}

// elsewhere returns another target in which a proxy has a PodChaperon, or nil. The target beside may have one that its
// cache does not show. Lost targets do not count. It asks whether to wait for a target that was engaged at a time.
func (a *allEnds) elsewhere(
	proxy *corev1.Pod, here, beside *engage.Target, waits func(engaged time.Time) bool,
) *engage.Target {
	a.mu.Lock()
	defer a.mu.Unlock()
	for other, ends := range a.byTarget {
		if other.NodeName != here.NodeName && !other.Lost() && waits(ends.since) &&
			(other == beside || ends.has(client.ObjectKeyFromObject(proxy), proxy.UID)) {
			return other
		}
	}
	return nil
}

func (a *allEnds) forget(target *engage.Target) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byTarget, target)
}
