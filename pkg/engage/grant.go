package engage

import (
	"context"
	"errors"
	"fmt"
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
	read      func(context.Context) (*v1alpha1.SourceGrant, error)
	clusterID string
	clock     clock.PassiveClock

	mu      sync.Mutex           // guards the field below
	nothing map[string]time.Time // since when the SourceGrant says of a namespace that this source has nothing there
}

// NewGrant returns a Grant of the source with a cluster ID that learns from an informer, or nil if there is none. read
// asks the target for the SourceGrant.
func NewGrant(
	informer toolscache.SharedIndexInformer, read func(context.Context) (*v1alpha1.SourceGrant, error),
	clusterID string,
) *Grant {
	if informer == nil {
		return nil
	}
	g := &Grant{
		informer: informer, read: read, clusterID: clusterID, clock: clock.RealClock{}, nothing: map[string]time.Time{},
	}
	// It does not fail on an informer that has not stopped.
	_, _ = informer.AddEventHandler(watch.On(g.seen, func(*v1alpha1.SourceGrant) { g.seen(nil) }))
	return g
}

// seen forgets the namespaces in which this source may have something as a SourceGrant says, also if nobody asks just
// now. Without one, nobody knows.
func (g *Grant) seen(grant *v1alpha1.SourceGrant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for namespace := range g.nothing {
		if grant == nil || !g.nothingIn(grant, namespace) {
			delete(g.nothing, namespace)
		}
	}
}

// Used notes that this source creates something in a namespace.
func (g *Grant) Used(namespace string) {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.nothing, namespace)
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

// HasNothingNow asks the target, and returns an error unless its SourceGrant says that this source has nothing in a
// namespace.
func (g *Grant) HasNothingNow(ctx context.Context, namespace string) error {
	if g == nil {
		return errUnsaid
	}
	grant, err := g.read(ctx)
	if err != nil {
		return fmt.Errorf("reading the SourceGrant: %w", err)
	}
	if !g.nothingIn(grant, namespace) {
		return errUnsaid
	}
	return nil
}

var errUnsaid = errors.New("the SourceGrant does not say that this source has nothing there")

func (g *Grant) saysNothingIn(namespace string) bool {
	for _, object := range g.informer.GetStore().List() {
		if grant, ok := object.(*v1alpha1.SourceGrant); ok {
			return g.nothingIn(grant, namespace)
		}
	}
	return false
}

func (g *Grant) nothingIn(grant *v1alpha1.SourceGrant, namespace string) bool {
	s := &grant.Status
	return s.Withheld != nil && s.ClusterID == g.clusterID &&
		!slices.Contains(slices.Concat(s.Withheld.Namespaces, s.Namespaces, s.Leaving), namespace)
}
