package services

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
	trial    *writer.Writer // writes nothing, and gets the answers of the target
	workers  *engage.Workers[item]
	objects  func() (*engage.Objects, error)
	// life is the context of the watches, that of the engagement.
	life context.Context //nolint:containedctx // watches are started by those who need them first

	preparing singleflight.Group
	prepared  atomic.Bool // whether copies from earlier times were looked for
	unlisted  atomic.Bool // whether copies of a kind could not be listed, for want of a right

	mu        sync.Mutex                  // guards all that follows
	existing  map[string]*existing        // by engage.Target.ReadsIn, from the first use on
	busy      map[string]int              // how many workers are in a namespace
	searched  sets.Set[string]            // the namespaces that the target named, and that were enqueued for a search
	chaperons map[string]sets.Set[string] // the names of PodChaperons, by namespace
	idle      map[types.NamespacedName]time.Time
	copied    map[types.NamespacedName]bool
	ensured   map[types.NamespacedName]bool         // the Services whose last reconciliation wrote all of the copy
	expected  map[types.NamespacedName]*expectation // the Services for which pods wait: see Follower.Ensure
	noted     map[item]noted                        // the last note about each item that cannot be copied: see note
	partly    map[types.NamespacedName]time.Time    // since when only some backends of an Ingress are followed
	secured   map[types.NamespacedName]bool         // the Ingresses for which the target keeps Secrets
	classes   sets.Set[string]                      // the IngressClasses that the target had when we looked
	unknown   sets.Set[string]                      // the traffic distributions that the target refused
}

// noted says why an item cannot be copied.
type noted struct {
	note string    // the message, with the UID of the original: see noteOf
	said time.Time // when an event last said so
}

// Reconcile updates the copies of an item in the target.
func (c *copier) Reconcile(ctx context.Context, i item) (reconcile.Result, error) {
	if c.target.Itself || !c.target.Reachable() {
		return reconcile.Result{}, nil // The source has no copies. A lost target is compared when it is engaged anew.
	}
	switch i.kind {
	case kindSearch:
		return c.search(ctx, i.Namespace)
	case kindForget:
		return c.forget(i.Namespace), nil
	}
	if c.target.Copied != nil {
		defer c.enter(i.Namespace)()
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
		answer := c.answerTo(i.NamespacedName)
		wait, err := c.reconcileService(ctx, i.NamespacedName)
		result, err := c.finish(ctx, i, wait, err)
		if err == nil || c.isRefused(i) {
			answer()
		}
		return result, err
	case kindIngress:
		wait, err := c.followIngress(ctx, i.NamespacedName)
		return c.finish(ctx, i, wait, err)
	}
	return reconcile.Result{}, nil
}

// prepare looks once for copies from earlier times, if one look shows all.
func (c *copier) prepare(ctx context.Context) error {
	if c.prepared.Load() || c.target.Copied != nil {
		return nil
	}
	_, err, _ := c.preparing.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
		defer cancel()
		refused, err := c.findCopies(ctx, c.target.Key.Namespace)
		c.unlisted.Store(refused)
		c.prepared.Store(err == nil)
		return nil, err
	})
	return err
}

// finish turns an error into a result. An error that only a person can correct becomes an event, and is retried slowly,
// except that missing rights are retried like other errors: after connecting, they arrive with a delay. The log says
// once what the events say again and again.
func (c *copier) finish(ctx context.Context, i item, wait time.Duration, err error) (reconcile.Result, error) {
	class := classOf(err)
	if class == apierror.NamespaceMissing { // The first delegate in that namespace enqueues the item at once.
		return reconcile.Result{RequeueAfter: refusedRetry}, nil
	}
	message, about := refusal(err), c.follower.originals.objectOf(i)
	news, due := c.note(i, about, message)
	if news && i.kind == kindService {
		c.enqueueIngresses(i.Namespace)
	}
	if message == "" {
		return reconcile.Result{RequeueAfter: wait}, err
	}
	if due && about != nil {
		c.follower.recordNotCopied(about, c.target, message)
	}
	if news && about != nil {
		log.FromContext(ctx).Info("Not followed", "kind", i.kind, "reason", message)
	}
	if class == apierror.RightsMissing {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: refusedRetry}, nil
}

// note notes the message about an item, or that there is none, and returns whether this is news. It always is about
// another original: an event is about one object, and without an original there was none. An event is due with news,
// and when API servers have forgotten the last event that said the same.
func (c *copier) note(i item, about client.Object, message string) (news, due bool) {
	note, now := noteOf(about, message), c.follower.options.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.noted[i]
	news = note != before.note
	due = note != "" && (news || now.Sub(before.said) >= engage.SayAgainAfter)
	switch {
	case note == "":
		delete(c.noted, i)
	case due:
		c.noted[i] = noted{note, now}
	}
	return news, due
}

func noteOf(about client.Object, message string) string {
	if message == "" || about == nil {
		return message
	}
	return string(about.GetUID()) + " " + message
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
			"there is a %s of that name, which does not come from this cluster, or has lost the annotation %s; delete "+
				"it there, or rename one of the two",
			notOurs.Kind, v1alpha1.AnnotationFollowedBy,
		)
	case errors.As(err, &refused):
		return "the TLS " + refused.Error()
	case errors.Is(err, errUser), errors.Is(err, errNoClass), errors.Is(err, errRelaxed), errors.Is(err, errPartly),
		classOf(err).Refusal():
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

// holds says whether the target has PodChaperons in a namespace.
func (c *copier) holds(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.chaperons[namespace]) > 0
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
	all := slices.Collect(maps.Values(c.existing))
	c.mu.Unlock()
	for _, e := range all {
		for _, i := range e.items(namespace) {
			c.workers.Queue.Add(i)
		}
	}
}
