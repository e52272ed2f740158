package services

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	// forgetAfter is how long after its last use the watch of a namespace without copies may end.
	forgetAfter = 5 * time.Minute
	// maxFound is how many namespaces are watched only because the target shows copies there. The target may name
	// others all the time.
	maxFound = 300
)

// startWatch starts the watches of copies in a namespace, unless they run, and returns them. A namespace that is only
// searched is not used.
func (c *copier) startWatch(namespace string, used bool) (*existing, error) {
	objects, err := c.objects()
	if err != nil {
		return nil, err
	}
	scope := c.target.ReadsIn(namespace)
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.existing[scope]
	if !ok {
		e, err = watchExisting(c.life, objects, scope, c.follower.options.Source.ClusterID, c.workers.Queue.Add)
		if err != nil {
			return nil, err
		}
		c.existing[scope] = e
		if c.target.Copied != nil {
			c.workers.Queue.AddAfter(inNamespace(kindForget, scope), forgetAfter)
		}
	}
	if used {
		e.used = c.follower.options.Clock.Now()
	}
	return e, nil
}

func inNamespace(kind itemKind, namespace string) item {
	return item{kind, types.NamespacedName{Namespace: namespace}}
}

// watched returns the copies in a namespace, or nil if they are not watched.
func (c *copier) watched(namespace string) *existing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.existing[c.target.ReadsIn(namespace)]
}

// listedExisting returns the copies in a namespace, once they are listed. It returns nil if there never were any, and
// if the target refuses to list them.
func (c *copier) listedExisting(ctx context.Context, namespace string) (*existing, error) {
	e := c.watched(namespace)
	if e == nil || e.isRefused() {
		return nil, nil
	}
	err := e.wait(ctx)
	if e.isRefused() {
		return nil, nil
	}
	return e, err
}

// ensureExisting starts the watches of copies in a namespace, unless they run, and waits for the lists.
func (c *copier) ensureExisting(ctx context.Context, namespace string) (*existing, error) {
	e, err := c.startWatch(namespace, true)
	if err != nil {
		return nil, err
	}
	return e, e.wait(ctx)
}

// findCopies starts the watches of a namespace, or of all, if there are any copies. The watches then enqueue these.
func (c *copier) findCopies(ctx context.Context, namespace string) (refused bool, err error) {
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ServiceList"), discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"),
		networkingv1.SchemeGroupVersion.WithKind("IngressList"),
	} {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(kind)
		err := c.target.APIReader.List(ctx, found, client.InNamespace(namespace), client.Limit(1),
			client.MatchingLabels{v1alpha1.LabelParentClusterID: c.follower.options.Source.ClusterID})
		if apierrors.IsForbidden(err) {
			refused = true
			continue // The first Service that is copied there reports this.
		}
		if err != nil {
			return refused, fmt.Errorf("looking for copies: %w", err)
		}
		if len(found.Items) == 0 && found.Continue == "" { // The gate may have left out those of the first page.
			continue
		}
		e, err := c.startWatch(namespace, false)
		if err != nil {
			return refused, err
		}
		if kind.Group == networkingv1.GroupName {
			e.watchIngresses()
		}
	}
	return refused, nil
}

// search looks for copies in a namespace that the target named.
func (c *copier) search(ctx context.Context, namespace string) (reconcile.Result, error) {
	if !c.target.Copied.Named().Has(namespace) {
		return reconcile.Result{}, nil
	}
	if c.foundEnough() {
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	refused, err := c.findCopies(ctx, namespace)
	if refused && err == nil {
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	return reconcile.Result{}, err
}

// foundEnough says whether as many namespaces as may be are watched that nobody used.
func (c *copier) foundEnough() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := 0
	for _, e := range c.existing {
		if e.used.IsZero() {
			found++
		}
	}
	return found >= maxFound
}

// grantChanged searches the namespaces that the target names now, and tries those again that it refused.
func (c *copier) grantChanged() {
	named := c.target.Copied.Named()
	var refused []string
	c.mu.Lock()
	added := named.Difference(c.searched)
	c.searched = named
	for namespace, e := range c.existing {
		if e.isRefused() {
			e.stop()
			delete(c.existing, namespace)
			refused = append(refused, namespace)
		}
	}
	c.mu.Unlock()
	for namespace := range added {
		c.workers.Queue.Add(inNamespace(kindSearch, namespace))
	}
	for _, namespace := range refused {
		c.compare(namespace)
	}
}

// searchAgain looks for copies, as at the beginning: another target of this cluster may have made some.
func (c *copier) searchAgain() {
	if c.target.Copied == nil {
		c.prepared.Store(false)
		c.workers.Queue.Add(item{})
		return
	}
	c.mu.Lock()
	c.searched = nil
	c.mu.Unlock()
	c.grantChanged()
}

// enter keeps the watches of a namespace running until leave is called.
func (c *copier) enter(namespace string) (leave func()) {
	add := func(n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.busy[namespace] += n; c.busy[namespace] == 0 {
			delete(c.busy, namespace)
		}
	}
	add(1)
	return func() { add(-1) }
}

// forget ends the watches of a namespace that has no copies, and was not used for a while. The next use starts them
// again.
func (c *copier) forget(namespace string) reconcile.Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.existing[namespace]
	switch {
	case e == nil:
		return reconcile.Result{}
	case c.busy[namespace] > 0, c.follower.options.Clock.Since(e.used) < forgetAfter, !e.isEmpty():
		return reconcile.Result{RequeueAfter: forgetAfter}
	}
	e.stop()
	delete(c.existing, namespace)
	if c.searched.Has(namespace) { // A copy may have come that the watches did not show.
		c.workers.Queue.Add(inNamespace(kindSearch, namespace))
	}
	return reconcile.Result{}
}

// isEmpty says whether no copy was seen that may still exist.
func (e *existing) isEmpty() bool {
	return e.isRefused() || e.services.HasSynced() && e.slices.HasSynced() && len(e.items("")) == 0
}
