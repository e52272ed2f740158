package engage

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// maxCopied is how many namespaces are looked into because the target's SourceGrant names them. The others follow when
// copies are gone from these. Each can cost four watches. Namespaces that pods need are watched in any case.
const maxCopied = 300

// Copied knows in which namespaces of a target this source may have copies. It is safe for concurrent use.
type Copied struct {
	grant toolscache.SharedIndexInformer

	mu    sync.Mutex // guards noted
	noted sets.Set[string]
}

// NewCopied returns a Copied that learns from an informer of this source's SourceGrant. It is nil if the target has
// none.
func NewCopied(grant toolscache.SharedIndexInformer) *Copied {
	return &Copied{grant: grant, noted: sets.New[string]()}
}

// Note notes a namespace in which a copy is made. The SourceGrant names it only some time later.
func (c *Copied) Note(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted.Insert(namespace)
}

// Named returns the namespaces that the SourceGrant names now.
func (c *Copied) Named() []string {
	if c.grant == nil {
		return nil
	}
	for _, object := range c.grant.GetStore().List() {
		if grant, ok := object.(*v1alpha1.SourceGrant); ok {
			return Named(grant.Status.Copied, maxCopied)
		}
	}
	return nil
}

// OnChange calls changed now, and whenever the SourceGrant changes, until ctx ends.
func (c *Copied) OnChange(ctx context.Context, changed func()) error {
	if c.grant == nil {
		return nil
	}
	registration, err := c.grant.AddEventHandler(
		watch.On(whileAlive(ctx, func(*v1alpha1.SourceGrant) { changed() }), nil),
	)
	if err != nil {
		return fmt.Errorf("handling events of the SourceGrant: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = c.grant.RemoveEventHandler(registration) })
	return nil
}

// Named returns at most so many of the names of namespaces that a target sent. The target may send anything.
func Named(names []string, most int) []string {
	valid := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return len(validation.IsDNS1123Label(name)) > 0
	})
	return valid[:min(len(valid), most)]
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
	t.Copied.mu.Lock()
	defer t.Copied.mu.Unlock()
	return sets.List(sets.New(t.Copied.Named()...).Union(t.Copied.noted))
}
