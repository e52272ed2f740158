package feedback

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
)

// ask is a request to a target's manager to end a delegate and its PodChaperon.
type ask struct {
	chaperon types.UID
	parent   types.UID // of the PodChaperon, or empty if the proxy may get another one
	grace    string    // as in ending
	spares   bool      // as in ending
	at       time.Time
}

// askFor returns what is remembered of a request.
func askFor(e ending, now time.Time) ask {
	a := ask{chaperon: e.chaperon.UID, grace: e.grace, spares: e.spares, at: now}
	if !e.withdrawn {
		a.parent = gate.ParentOf(e.chaperon).UID
	}
	return a
}

// asks remembers the requests to a target's manager as long as they matter. A new leader asks again, which changes
// nothing in the target.
type asks struct {
	mu      sync.Mutex // guards byProxy, but not its slices: one worker at a time has the proxy
	byProxy map[types.NamespacedName][]ask
}

// forProxy returns the requests about a proxy, and forgets those whose PodChaperon is gone, unless it was the proxy's
// own.
func (a *asks) forProxy(proxy types.NamespacedName, s state) []ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := slices.DeleteFunc(a.byProxy[proxy], func(a ask) bool {
		return (s.proxy == nil || s.proxy.UID != a.parent) &&
			!slices.ContainsFunc(s.chaperons, func(c v1alpha1.PodChaperon) bool { return c.UID == a.chaperon })
	})
	if len(asked) == 0 {
		delete(a.byProxy, proxy)
	}
	return asked
}

// remember keeps the last request about a PodChaperon. Of a proxy's own PodChaperons, it keeps the last request about
// any: they come one after another, and a target may show any number of them.
func (a *asks) remember(proxy types.NamespacedName, asked ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byProxy == nil {
		a.byProxy = map[types.NamespacedName][]ask{}
	}
	others := slices.DeleteFunc(a.byProxy[proxy], func(a ask) bool {
		return a.chaperon == asked.chaperon || a.parent != "" && a.parent == asked.parent
	})
	a.byProxy[proxy] = append(others, asked)
}

// mustSpare says whether a withdrawn delegate that has a node is not to end. Somebody may have deleted the Lease by
// which the target's manager says that it spares such a delegate. So a request is not made again at once in words that
// are final.
func (s *state) mustSpare(c *v1alpha1.PodChaperon) bool {
	return s.spares || slices.ContainsFunc(s.asked, func(a ask) bool {
		return a.chaperon == c.UID && a.spares && s.now.Sub(a.at) < managerPatience
	})
}
