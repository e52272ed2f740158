package feedback

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ask is what a target's manager was asked: to end a delegate and its PodChaperon.
type ask struct {
	chaperon types.UID
	parent   types.UID // of the PodChaperon
	grace    string    // as in ending
	at       time.Time
}

// asks remembers what a target's manager was asked, as long as that matters. A new leader asks again, which changes
// nothing in the target.
type asks struct {
	mu      sync.Mutex // guards byProxy; each of its slices is for the one worker that has the proxy
	byProxy map[types.NamespacedName][]ask
}

// forProxy returns what was asked concerning a proxy: the end of PodChaperons that are there, or that were the proxy's own.
func (a *asks) forProxy(proxy types.NamespacedName, s state) []ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	asked := slices.DeleteFunc(a.byProxy[proxy], func(of ask) bool {
		return (s.proxy == nil || s.proxy.UID != of.parent) &&
			!slices.ContainsFunc(s.chaperons, func(c v1alpha1.PodChaperon) bool { return c.UID == of.chaperon })
	})
	if len(asked) == 0 {
		delete(a.byProxy, proxy)
	}
	return asked
}

// remember remembers what was asked last about a PodChaperon.
func (a *asks) remember(proxy types.NamespacedName, asked ask) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byProxy == nil {
		a.byProxy = map[types.NamespacedName][]ask{}
	}
	others := slices.DeleteFunc(a.byProxy[proxy], func(of ask) bool { return of.chaperon == asked.chaperon })
	a.byProxy[proxy] = append(others, asked)
}
