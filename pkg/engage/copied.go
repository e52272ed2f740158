package engage

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// maxCopied is how many namespaces are looked into because the target's SourceGrant names them. The others follow
	// when copies are gone from these. Namespaces that pods need are watched in any case.
	maxCopied = 1000
	// changeInterval is the time between two calls of changed. A target may change its SourceGrant without end, and
	// name others each time.
	changeInterval = 5 * time.Second
)

// Copied knows in which namespaces of a target this source may have copies. It is safe for concurrent use.
type Copied struct {
	grant toolscache.SharedIndexInformer
	clock clock.Clock

	mu    sync.Mutex // guards the fields below
	noted sets.Set[string]
	// named is what last names.
	last  *v1alpha1.SourceGrant
	named sets.Set[string]
}

// NewCopied returns a Copied that learns from an informer of this source's SourceGrant. It is nil if the target has
// none.
func NewCopied(grant toolscache.SharedIndexInformer) *Copied {
	return &Copied{grant: grant, clock: clock.RealClock{}, noted: sets.New[string]()}
}

// Note notes a namespace in which a copy is made. The SourceGrant names it only some time later.
func (c *Copied) Note(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted.Insert(namespace)
}

// Named returns the namespaces that the SourceGrant names now. The caller must not change them.
func (c *Copied) Named() sets.Set[string] {
	if c.grant == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range c.grant.GetStore().List() {
		if grant, ok := object.(*v1alpha1.SourceGrant); ok && grant != c.last {
			c.last, c.named = grant, sets.New(Named(grant.Status.Copied, maxCopied)...)
		}
	}
	return c.named
}

// OnChange calls changed now, and soon after the SourceGrant has changed, one call after the other, until ctx ends.
func (c *Copied) OnChange(ctx context.Context, changed func()) error {
	if c.grant == nil {
		return nil
	}
	pending := make(chan struct{}, 1)
	note := func(*v1alpha1.SourceGrant) {
		select {
		case pending <- struct{}{}:
		default:
		}
	}
	registration, err := c.grant.AddEventHandler(watch.On(note, nil))
	if err != nil {
		return fmt.Errorf("handling events of the SourceGrant: %w", err)
	}
	go func() {
		defer func() { _ = c.grant.RemoveEventHandler(registration) }()
		for {
			select {
			case <-pending:
				changed()
			case <-ctx.Done():
				return
			}
			select {
			case <-c.clock.After(changeInterval):
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// Named returns at most so many of the names of namespaces that a target sent. The target may send anything.
func Named(names []string, most int) []string {
	var valid []string
	for _, name := range names[:min(len(names), 2*most)] {
		if len(valid) < most && len(validation.IsDNS1123Label(name)) == 0 {
			valid = append(valid, name)
		}
	}
	return valid
}

// ReadsIn returns the namespace to which this source must limit reads of copies in a namespace of the target. It is
// empty if the source may read the whole cluster.
func (t *Target) ReadsIn(namespace string) string {
	if t.Copied == nil {
		return t.Key.Namespace
	}
	return namespace
}

// MayHaveCopies returns the namespaces, as ReadsIn returns them, in which this source may have copies in the target.
func (t *Target) MayHaveCopies() []string {
	if t.Copied == nil {
		return []string{t.Key.Namespace}
	}
	named := t.Copied.Named()
	t.Copied.mu.Lock()
	defer t.Copied.mu.Unlock()
	return sets.List(named.Union(t.Copied.noted))
}
