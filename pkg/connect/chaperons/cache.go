package chaperons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
)

const (
	// listsAtATime bounds the lists that Watch waits for.
	listsAtATime = 20
	// forgetAfter is how long after its last use a namespace may be forgotten.
	forgetAfter = 5 * time.Minute
)

// Cache reads PodChaperons namespace by namespace, and other kinds from another cache. It is safe for concurrent use.
type Cache struct {
	cache.Cache // of other kinds

	life  context.Context //nolint:containedctx // Namespaces are added while it lasts.
	make  Maker
	clock clock.Clock

	nothingIn func(ctx context.Context, namespace string) bool

	mu         sync.Mutex // guards the fields below, and registration.of
	namespaces map[string]*namespace
	handlers   map[*registration]struct{}
}

// Maker makes a cache that reads only the PodChaperons of a namespace, with the index engage.IndexParent. The cache
// passes its ListerWatchers through wrap.
type Maker func(namespace string, wrap func(toolscache.ListerWatcher) toolscache.ListerWatcher) (cache.Cache, error)

// New returns a Cache that watches no namespace yet. Its watches end with life. The caller starts others.
//
// nothingIn says of a namespace that the target refuses whether the target surely has no PodChaperons of this source
// there. It may ask the target.
func New(
	life context.Context, others cache.Cache, maker Maker, clock clock.Clock,
	nothingIn func(ctx context.Context, namespace string) bool,
) *Cache {
	return &Cache{
		Cache: others, life: life, make: maker, clock: clock, nothingIn: nothingIn,
		namespaces: map[string]*namespace{}, handlers: map[*registration]struct{}{},
	}
}

// Watch watches namespaces. It returns when each of them is listed, or refused by the target.
func (c *Cache) Watch(ctx context.Context, namespaces []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listsAtATime)
	for _, name := range namespaces {
		group.Go(func() error {
			n, err := c.use(name)
			if err == nil {
				_, err = n.wait(ctx)
			}
			return err
		})
	}
	return group.Wait()
}

// Use notes that a namespace is used. It is watched from now on.
func (c *Cache) Use(namespace string) error {
	_, err := c.use(namespace)
	return err
}

func (c *Cache) use(name string) (*namespace, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, ok := c.namespaces[name]
	if !ok {
		var err error
		if n, err = c.start(name); err != nil {
			return nil, fmt.Errorf("watching PodChaperons of namespace %q: %w", name, err)
		}
		c.namespaces[name] = n
	}
	n.used = c.clock.Now()
	return n, nil
}

// Watches says whether a namespace is watched.
func (c *Cache) Watches(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.namespaces[namespace] != nil
}

// Listed says whether a namespace is listed, and the handlers have seen all its PodChaperons. One that the target has
// always refused is not, unless nothing is there: see New. It does not wait, and the namespace is watched from now on.
// Package scheduling asks this of whichever cache has this method.
func (c *Cache) Listed(namespace string) bool {
	n, err := c.use(namespace)
	if err != nil || !n.informer.HasSynced() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.handlers {
		if handle, ok := r.of[n]; ok && !handle.HasSynced() {
			return false
		}
	}
	return true
}

// Granted tries namespaces that were refused again: the target may have granted them by now.
func (c *Cache) Granted(namespaces []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range namespaces {
		if n, ok := c.namespaces[name]; ok {
			n.patience.end()
		}
	}
}

// Forget stops the watches of namespaces that were not used for a while, have no PodChaperons, and are not to be kept.
func (c *Cache) Forget(keep func(namespace string) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, n := range c.namespaces {
		if c.clock.Since(n.used) < forgetAfter || keep(name) || !n.isEmpty(c.life) {
			continue
		}
		n.end()
		for r := range c.handlers {
			delete(r.of, n)
		}
		delete(c.namespaces, name)
	}
}

// Get reads a PodChaperon once its namespace is listed. If the target has always refused that, it returns the refusal,
// unless nothing is there.
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*v1alpha1.PodChaperon); !ok {
		return c.Cache.Get(ctx, key, o, opts...)
	}
	n, err := c.listed(ctx, key.Namespace)
	if err != nil {
		return err
	}
	return n.cache.Get(ctx, key, o, opts...)
}

// List lists the PodChaperons of one namespace, which is that of the proxy for engage.IndexParent, as Get reads one.
// Without a namespace it lists those of all namespaces that are listed.
func (c *Cache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	chaperons, ok := list.(*v1alpha1.PodChaperonList)
	if !ok {
		return c.Cache.List(ctx, list, opts...)
	}
	if name := namespaceOf(opts); name != "" {
		n, err := c.listed(ctx, name)
		if err != nil {
			return err
		}
		return n.cache.List(ctx, list, opts...)
	}
	chaperons.Items = nil
	for _, n := range c.allListed() {
		some := &v1alpha1.PodChaperonList{}
		if err := n.cache.List(ctx, some, opts...); err != nil {
			return err
		}
		chaperons.Items = append(chaperons.Items, some.Items...)
	}
	return nil
}

// namespaceOf returns the namespace that a list is limited to.
func namespaceOf(opts []client.ListOption) string {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	if options.Namespace == "" && options.FieldSelector != nil {
		parent, _ := options.FieldSelector.RequiresExactMatch(engage.IndexParent)
		options.Namespace, _, _ = strings.Cut(parent, "/")
	}
	return options.Namespace
}

// listed returns a namespace that is used, once it is listed.
func (c *Cache) listed(ctx context.Context, name string) (*namespace, error) {
	n, err := c.use(name)
	if err != nil {
		return nil, err
	}
	refused, err := n.wait(ctx)
	if err != nil || refused != nil {
		return nil, fmt.Errorf("reading PodChaperons of namespace %q: %w", name, errors.Join(err, refused))
	}
	return n, nil
}

func (c *Cache) allListed() []*namespace {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*namespace
	for _, n := range c.namespaces {
		if n.informer.HasSynced() {
			all = append(all, n)
		}
	}
	return all
}

// GetInformer returns an informer of the PodChaperons of all namespaces, those that are watched later included.
func (c *Cache) GetInformer(
	ctx context.Context, o client.Object, opts ...cache.InformerGetOption,
) (cache.Informer, error) {
	if _, ok := o.(*v1alpha1.PodChaperon); !ok {
		return c.Cache.GetInformer(ctx, o, opts...)
	}
	return &informer{cache: c}, nil
}

// Writer returns a client that watches each namespace in which it creates a PodChaperon.
func (c *Cache) Writer(to client.Client) client.Client { return &writer{to, c} }

type writer struct {
	client.Client

	cache *Cache
}

// Create creates an object.
func (w *writer) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if _, ok := o.(*v1alpha1.PodChaperon); ok {
		if _, err := w.cache.use(o.GetNamespace()); err != nil {
			return err
		}
	}
	return w.Client.Create(ctx, o, opts...)
}
