package services

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/apierror"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// errUser says that the user must correct something.
var errUser = errors.New("invalid")

// copier keeps the copies in one engaged target up to date. One worker at a time works on an item.
type copier struct {
	follower *Follower
	desired  desired
	target   *engage.Target
	writer   *writer.Writer
	workers  *engage.Workers[item]
	// watch starts the watches of copies, once.
	watch func() (*existing, error)

	preparing singleflight.Group
	prepared  atomic.Bool // whether copies from earlier times were looked for
	unlisted  atomic.Bool // whether copies of a kind could not be listed, for want of a right

	mu        sync.Mutex                  // guards all that follows
	existing  *existing                   // nil until watch is called
	chaperons map[string]sets.Set[string] // the names of PodChaperons, by namespace
	idle      map[types.NamespacedName]time.Time
	copied    map[types.NamespacedName]bool
	noted     map[item]string               // the last message about each item that cannot be copied
	secured   map[types.NamespacedName]bool // the Ingresses for which the target keeps Secrets
}

// Reconcile updates the copies of an item in the target.
func (c *copier) Reconcile(ctx context.Context, i item) (reconcile.Result, error) {
	if c.target.Itself || !c.target.Reachable() {
		return reconcile.Result{}, nil // The source has no copies. A lost target is compared when it is engaged anew.
	}
	isSearch := i == item{}
	if isSearch && c.unlisted.Load() { // Rights can arrive later than the connection.
		c.prepared.Store(false)
	}
	if err := c.prepare(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if isSearch && c.unlisted.Load() {
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	switch i.kind {
	case kindService:
		wait, err := c.reconcileService(ctx, i.NamespacedName)
		return c.finish(i, wait, err)
	case kindIngress:
		return c.finish(i, 0, c.reconcileIngress(ctx, i.NamespacedName))
	}
	return reconcile.Result{}, nil
}

// prepare looks once for copies from earlier times.
func (c *copier) prepare(ctx context.Context) error {
	if c.prepared.Load() {
		return nil
	}
	_, err, _ := c.preparing.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
		defer cancel()
		err := c.findCopies(ctx)
		c.prepared.Store(err == nil)
		return nil, err
	})
	return err
}

// findCopies starts the watches if the target has any copies. The watches then enqueue these.
func (c *copier) findCopies(ctx context.Context) error {
	c.unlisted.Store(false)
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceList"), networkingv1.SchemeGroupVersion.WithKind("IngressList"),
		discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"),
	} {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		err := c.target.APIReader.List(ctx, found, client.InNamespace(c.target.Key.Namespace), client.Limit(1),
			client.MatchingLabels{v1alpha1.LabelParentClusterID: c.follower.options.Source.ClusterID})
		if apierrors.IsForbidden(err) {
			c.unlisted.Store(true)
			continue // The first Service that is copied there reports this.
		}
		if err != nil {
			return fmt.Errorf("looking for copies: %w", err)
		}
		if len(found.Items) > 0 || found.Continue != "" { // The gate may have left out those of the first page.
			_, err := c.startWatch()
			return err
		}
	}
	return nil
}

// startWatch starts the watches of copies, unless they run, and returns them.
func (c *copier) startWatch() (*existing, error) {
	e, err := c.watch()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.existing = e
	return e, err
}

// listedExisting returns the copies in the target, once they are listed. It returns nil if the target never had any.
func (c *copier) listedExisting(ctx context.Context) (*existing, error) {
	c.mu.Lock()
	e := c.existing
	c.mu.Unlock()
	if e == nil {
		return nil, nil
	}
	return e, e.wait(ctx)
}

// finish turns an error into a result. An error that only a person can correct becomes an event, and is retried slowly,
// except that missing rights are retried like other errors: after connecting, they arrive with a delay.
func (c *copier) finish(i item, wait time.Duration, err error) (reconcile.Result, error) {
	class := classOf(err)
	if class == apierror.NamespaceMissing { // The first delegate in that namespace enqueues the item at once.
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	message := refusal(err)
	c.mu.Lock()
	news := c.noted[i] != message
	if message == "" {
		delete(c.noted, i)
	} else {
		c.noted[i] = message
	}
	c.mu.Unlock()
	if news && i.kind == kindService {
		c.enqueueIngresses(i.Namespace)
	}
	if message == "" {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	if about := c.follower.originals.objectOf(i); news && about != nil {
		c.follower.recordNotCopied(about, c.target, message)
	}
	if class == apierror.RightsMissing {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: refusedRetry}, nil
}

// refusal returns the message about an error that does not pass by itself. It is empty for other errors.
func refusal(err error) string {
	var notOurs *writer.NotOursError
	var refused *needs.RefusedError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &notOurs):
		return fmt.Sprintf(
			"there is a %s of that name, which does not come from this cluster; delete it there, or rename one of "+
				"the two",
			notOurs.Kind,
		)
	case errors.As(err, &refused):
		return "the TLS " + refused.Error()
	case errors.Is(err, errUser), classOf(err).Refusal():
		return err.Error()
	}
	return ""
}

// classOf returns the class of the answer by which the target's API server refused a copy, or a Secret of an Ingress.
func classOf(err error) apierror.Class {
	if refused := (*needs.RefusedError)(nil); errors.As(err, &refused) {
		return refused.Class
	}
	return apierror.Of(err, apierror.Create)
}

// chaperonSeen notes a PodChaperon. The copies that go to the target depend on whether their namespace has any.
func (c *copier) chaperonSeen(chaperon *v1alpha1.PodChaperon) {
	c.mu.Lock()
	names, holds := c.chaperons[chaperon.Namespace]
	if !holds {
		names = sets.New[string]()
		c.chaperons[chaperon.Namespace] = names
	}
	names.Insert(chaperon.Name)
	c.mu.Unlock()
	if !holds {
		c.compare(chaperon.Namespace)
	}
}

func (c *copier) chaperonGone(chaperon *v1alpha1.PodChaperon) {
	c.mu.Lock()
	names := c.chaperons[chaperon.Namespace]
	names.Delete(chaperon.Name)
	holds := names.Len() > 0
	if !holds {
		delete(c.chaperons, chaperon.Namespace)
	}
	c.mu.Unlock()
	if !holds {
		c.compare(chaperon.Namespace)
	}
	c.follower.recheckSelectors(chaperon.Namespace)
}

// serves says whether the target is ready for a selector that finds delegates only: it has a copy, or needs none.
func (c *copier) serves(key types.NamespacedName) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.target.Itself || c.copied[key] || len(c.chaperons[key.Namespace]) == 0
}

// compare enqueues all items of a namespace that are in the source or in the target. An empty name stands for all
// namespaces.
func (c *copier) compare(namespace string) {
	for _, i := range c.follower.originals.items(namespace) {
		if c.target.Allows(i.Namespace) {
			c.workers.Queue.Add(i)
		}
	}
	c.mu.Lock()
	e := c.existing
	c.mu.Unlock()
	if e == nil {
		return
	}
	for _, i := range e.items(namespace) {
		c.workers.Queue.Add(i)
	}
}
