package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

type (
	claimStore = watch.Store[*corev1.PersistentVolumeClaim, claim]
	classStore = watch.Store[*storagev1.StorageClass, class]
)

// cluster is the source, or a target as long as it is engaged.
type cluster struct {
	location        // of a target; empty for the source
	sourceID string // the source's cluster ID
	client   client.Client
	objects  func(list client.ObjectList, options ...client.ListOption) toolscache.ListerWatcher
	clock    clock.Clock
	// life is the context of its watches.
	life context.Context //nolint:containedctx // watches are started by those who ask first, and outlive their requests
	// listed is called when the claims of a namespace are listed, changed when one of them changes. An empty namespace
	// stands for StorageClasses.
	listed  func(namespace string)
	changed func(namespace, name string)

	// Only targets have these.
	target  *engage.Target
	writer  *writer.Writer
	workers *engage.Workers[types.NamespacedName]
	// unlisted logs, once, that copies cannot be listed.
	unlisted sync.Once

	mu      sync.Mutex // guards claims, classes and idle
	claims  map[string]*watched
	classes *classStore
	// idle are claims that seem to be here for nothing: the target has refused a pod with the claim, or the claim keeps
	// a pod that is nowhere from another target. No pod has asked for the claim here since.
	idle sets.Set[types.NamespacedName]
}

// watched has the claims of a namespace, which is watched.
type watched struct {
	*claimStore

	stop  context.CancelFunc
	asked atomic.Pointer[time.Time] // time of the last question
	found atomic.Bool               // whether there were copies when the target was engaged
}

// claimsIn returns the claims of a namespace, and watches them from now on.
func (c *cluster) claimsIn(namespace string) *watched {
	now := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.claims[namespace]
	if !ok {
		ctx, stop := context.WithCancel(c.life)
		w = &watched{stop: stop, claimStore: watch.NewStore(watch.StoreOptions[*corev1.PersistentVolumeClaim, claim]{
			EntryOf: func(pvc *corev1.PersistentVolumeClaim) claim { return claimOf(pvc, c.sourceID) },
			Listed:  func(map[string]claim) { c.listed(namespace) },
			Changed: func(name string, _, _ *claim) { c.changed(namespace, name) },
			Kept:    c.kept,
			SizeOf:  sizeOfClaim,
		})}
		c.claims[namespace] = w
		go w.Run(ctx, workersName, c.clock, c.objects(
			&corev1.PersistentVolumeClaimList{}, client.InNamespace(namespace)),
		)
	}
	w.asked.Store(&now)
	return w
}

// listedClaims returns the claims of a namespace if they are listed, and nil otherwise. It does not count as a
// question.
func (c *cluster) listedClaims(namespace string) *watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.claims[namespace]
	if w == nil || w.Err() != nil {
		return nil
	}
	return w
}

// storageClasses returns the storage classes, and watches them from now on.
func (c *cluster) storageClasses() *classStore {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.classes == nil {
		c.classes = watch.NewStore(watch.StoreOptions[*storagev1.StorageClass, class]{
			EntryOf: classOf,
			Listed:  func(map[string]class) { c.listed("") },
			Changed: func(name string, _, _ *class) { c.changed("", name) },
			Kept:    c.kept,
			SizeOf:  sizeOfClass,
		})
		go c.classes.Run(c.life, workersName, c.clock, c.objects(&storagev1.StorageClassList{}))
	}
	return c.classes
}

// kept puts entries on the account of a target.
func (c *cluster) kept(entries, bytes int64) {
	if c.target != nil {
		c.target.Account.Keep(entries, bytes)
	}
}

// isWatching says whether the claims of a namespace are watched.
func (c *cluster) isWatching(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claims[namespace] != nil
}

// mayWatch says whether the claims of a namespace may be watched because the target shows a copy there. The target may
// invent namespaces.
func (c *cluster) mayWatch(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.claims[namespace]; ok {
		return true
	}
	found := 0
	for _, w := range c.claims {
		if w.found.Load() {
			found++
		}
	}
	return found < maxFound
}

// namespaces returns the namespaces whose claims are watched.
func (c *cluster) namespaces() map[string]*watched {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.claims)
}

// stopUnasked stops the watches about which nobody asked since then, except those that stay.
func (c *cluster) stopUnasked(since time.Time, stays func(namespace string, w *watched) bool) {
	for namespace, w := range c.namespaces() {
		if stays(namespace, w) {
			continue
		}
		c.mu.Lock()
		if w.asked.Load().Before(since) && c.claims[namespace] == w {
			delete(c.claims, namespace)
			w.stop()
		}
		c.mu.Unlock()
	}
}

// hasCopies says whether a claim is a copy of ours, as far as is known.
func (w *watched) hasCopies() bool {
	if w.Err() != nil {
		return w.found.Load()
	}
	for _, c := range w.Entries() {
		if c.origin == ours {
			return true
		}
	}
	return false
}

// explain returns the reason, for users, why a cluster's claims or storage classes are not known.
func (c *cluster) explain(err error, resource string) string {
	where, whose := "there", "the source's user"
	if c.target == nil {
		where, whose = "here", "this cluster's manager"
	}
	switch {
	case errors.Is(err, watch.ErrNotListed):
		return fmt.Sprintf("%s are not known yet", resource)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf(
			"%s cannot be seen %s: %s needs the rights to get, list and watch them (%v)",
			resource,
			where,
			whose,
			err,
		)
	default:
		return fmt.Sprintf("%s cannot be seen %s (%v)", resource, where, err)
	}
}
