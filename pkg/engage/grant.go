package engage

import (
	"slices"
	"sync"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// nothingAfter is how long a SourceGrant must say that this source has nothing in a namespace. The target's manager
// learns of PodChaperons and of rights by two watches, and writes what it knows a moment later.
const nothingAfter = time.Minute

// Grant knows the SourceGrant of this source in a target. It is safe for concurrent use. A nil Grant knows nothing.
type Grant struct {
	informer  toolscache.SharedIndexInformer
	clusterID string
	clock     clock.PassiveClock

	mu      sync.Mutex           // guards the field below
	nothing map[string]time.Time // since when the SourceGrant says of a namespace that this source has nothing there
}

// NewGrant returns a Grant of the source with a cluster ID that learns from an informer, or nil if there is none.
func NewGrant(informer toolscache.SharedIndexInformer, clusterID string) *Grant {
	if informer == nil {
		return nil
	}
	g := &Grant{
		informer: informer, clusterID: clusterID, clock: clock.RealClock{}, nothing: map[string]time.Time{},
	}
	// It does not fail on an informer that has not stopped.
	_, _ = informer.AddEventHandler(watch.OnAny(func(*v1alpha1.SourceGrant) { g.recheck() }))
	return g
}

// recheck forgets namespaces in which this source may have something, also if nobody asks just now.
func (g *Grant) recheck() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for namespace := range g.nothing {
		if !g.saysNothingIn(namespace) {
			delete(g.nothing, namespace)
		}
	}
}

// HasNothingIn says whether this source surely has no PodChaperons in a namespace where it has no rights. The first
// question begins to measure how long the target says so. Confirm says whether the target says so of the present.
func (g *Grant) HasNothingIn(namespace string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.saysNothingIn(namespace) {
		delete(g.nothing, namespace)
		return false
	}
	since, known := g.nothing[namespace]
	if !known {
		g.nothing[namespace] = g.clock.Now()
	}
	return known && g.clock.Since(since) >= nothingAfter
}

func (g *Grant) saysNothingIn(namespace string) bool {
	for _, object := range g.informer.GetStore().List() {
		if grant, ok := object.(*v1alpha1.SourceGrant); ok {
			s := &grant.Status
			return s.Withheld != nil && s.ClusterID == g.clusterID &&
				!slices.Contains(slices.Concat(s.Withheld.Namespaces, s.Namespaces, s.Leaving), namespace)
		}
	}
	return false
}
