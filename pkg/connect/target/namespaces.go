package target

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/chaperons"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// maxOfGrant is how many namespaces are watched because the target's SourceGrant names them. The others follow when
	// these are not used any more. Namespaces with proxies are watched in any case.
	maxOfGrant = 1000
	// forgetInterval is how often namespaces are looked for that need not be watched any more.
	forgetInterval = time.Minute
)

// readsEverywhere says whether the PodChaperons of a target are read by one watch, and so are copies. A Target has one
// namespace. A ClusterTarget may let this source read the whole cluster: older ones do, and those where an
// administrator bound the role in the whole cluster.
//
// Other errors than a refusal say nothing about the right.
func (l *loop) readsEverywhere(ctx context.Context, d *dialer) (bool, error) {
	if l.key.Namespace != "" {
		return true, nil
	}
	err := l.persistently(ctx, func() error {
		return d.live.List(ctx, &v1alpha1.PodChaperonList{}, client.MatchingLabels(l.ours()), client.Limit(1))
	})
	if err != nil && !apierrors.IsForbidden(err) {
		return false, fmt.Errorf("listing: %w", err)
	}
	return err == nil, nil
}

// watchNamespaces has a cache read PodChaperons namespace by namespace. When it returns, the cache has synced those of
// all namespaces that may hold a delegate.
func (l *loop) watchNamespaces(ctx, life context.Context, d *dialer, e *engagement, c *chaperons.Cache) error {
	grant, err := l.watchGrant(ctx, life, d, e)
	if err != nil {
		return err
	}
	e.grant = engage.NewGrant(grant, d.readGrant(e.leases.grant), l.options.Source.ClusterID)
	e.target.FindsNothing, e.target.FindsNothingNow = e.grant.HasNothingIn, e.grant.HasNothingNow
	needed, err := l.needed(ctx, e.target.NodeName, lastOf(grant))
	if err != nil {
		return err
	}
	if err := c.Watch(ctx, sets.List(needed)); err != nil {
		return err
	}
	follow(life, c, grant)
	e.target.Copied = engage.NewCopied(grant)
	go l.forget(life, c, e.target.NodeName, grant)
	return nil
}

// makerOfCaches returns what makes the cache of a namespace. It reports errors of watches, but no refusals, which
// concern one namespace.
func (l *loop) makerOfCaches(
	ctx context.Context, d *dialer, e *engagement, failed toolscache.WatchErrorHandlerWithContext,
) chaperons.Maker {
	ctx = context.WithoutCancel(ctx) // Making caches asks nobody.
	unlessRefused := func(ctx context.Context, r *toolscache.Reflector, err error) {
		if !apierrors.IsForbidden(err) {
			failed(ctx, r, err)
		}
	}
	return func(
		namespace string, wrap func(toolscache.ListerWatcher) toolscache.ListerWatcher,
	) (cache.Cache, error) {
		options := e.cacheOptions(map[client.Object]cache.ByObject{
			&v1alpha1.PodChaperon{}: l.chaperonOptions(namespace),
		}, unlessRefused)
		informer := options.NewInformer
		options.NewInformer = func(
			lw toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return informer(wrap(lw), kind, resync, indexers)
		}
		c, err := d.cache(options)
		if err == nil {
			err = c.IndexField(ctx, &v1alpha1.PodChaperon{}, engage.IndexParent, parentKey)
		}
		return c, err
	}
}

// needed returns the namespaces that may hold delegates in the target: those with proxies that are bound to its node,
// or to none, and those that its SourceGrant names. Without a SourceGrant, those with any proxy take their place.
func (l *loop) needed(
	ctx context.Context, nodeName string, grant *v1alpha1.SourceGrant,
) (sets.Set[string], error) {
	pods := &corev1.PodList{}
	if err := l.options.Client.List(ctx, pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing proxies: %w", err)
	}
	needed := sets.New(namedBy(grant)...)
	for i := range pods.Items {
		spec := &pods.Items[i].Spec
		if spec.SchedulerName == v1alpha1.SchedulerName &&
			(grant == nil || spec.NodeName == "" || spec.NodeName == nodeName) {
			needed.Insert(pods.Items[i].Namespace)
		}
	}
	return needed, nil
}

// namedBy returns the namespaces in which the target says that this source has objects. The target may say anything.
func namedBy(grant *v1alpha1.SourceGrant) []string {
	if grant == nil {
		return nil
	}
	return engage.Named(slices.Concat(grant.Status.Used, grant.Status.Leaving), maxOfGrant)
}

// watchGrant returns an informer of the SourceGrant of this source, which has synced, or nil if there is none.
func (l *loop) watchGrant(ctx, life context.Context, d *dialer, e *engagement) (toolscache.SharedIndexInformer, error) {
	if e.leases.client == nil {
		err := l.persistently(ctx, func() (err error) { e.leases, err = d.leases(ctx); return err })
		if err != nil {
			return nil, err
		}
	}
	if !e.leases.granted {
		return nil, nil //nolint:nilnil // documented
	}
	informer, err := d.grant(e.leases.grant)
	if err != nil {
		return nil, err
	}
	var failure atomic.Pointer[error]
	failed := func(ctx context.Context, _ *toolscache.Reflector, err error) {
		failure.Store(&err)
		log.FromContext(ctx).V(1).Info("Cannot watch the SourceGrant", "error", err.Error())
	}
	// They do not fail on an informer that has not started.
	_, _ = d.account.KeepAllOf(informer, sizeOf), informer.SetWatchErrorHandlerWithContext(failed)
	go informer.RunWithContext(life)
	if !toolscache.WaitFor(ctx, "", informer.HasSyncedChecker()) {
		if last := failure.Load(); last != nil {
			return nil, fmt.Errorf("watching the SourceGrant: %w: %w", context.Cause(ctx), *last)
		}
		return nil, fmt.Errorf("watching the SourceGrant: %w", context.Cause(ctx))
	}
	return informer, nil
}

// lastOf returns the SourceGrant as last seen, or nil.
func lastOf(informer toolscache.SharedIndexInformer) *v1alpha1.SourceGrant {
	if informer == nil {
		return nil
	}
	for _, object := range informer.GetStore().List() {
		grant, _ := object.(*v1alpha1.SourceGrant)
		return grant
	}
	return nil
}

// follow watches each namespace that the SourceGrant names, and tries those again that it grants.
func follow(life context.Context, c *chaperons.Cache, informer toolscache.SharedIndexInformer) {
	if informer == nil {
		return
	}
	named := sets.New[string]()
	// It does not fail on an informer that runs.
	_, _ = informer.AddEventHandler(watch.On(func(grant *v1alpha1.SourceGrant) {
		c.Granted(slices.Concat(grant.Status.Namespaces, grant.Status.Leaving))
		for _, namespace := range alsoNamed(named, grant, c.Watches) {
			if err := c.Use(namespace); err != nil {
				log.FromContext(life).Error(err, "The SourceGrant names a namespace that cannot be watched")
			}
		}
	}, nil))
}

// alsoNamed adds the namespaces that a SourceGrant names to those that it named before, and returns them. A target may
// name others each time. So at most maxOfGrant are watched for it, until they are forgotten.
func alsoNamed(before sets.Set[string], grant *v1alpha1.SourceGrant, watched func(string) bool) []string {
	for namespace := range before {
		if !watched(namespace) {
			before.Delete(namespace)
		}
	}
	return slices.DeleteFunc(namedBy(grant), func(namespace string) bool {
		if before.Len() < maxOfGrant {
			before.Insert(namespace)
		}
		return !before.Has(namespace)
	})
}

// readGrant returns a function that reads one SourceGrant.
func (d *dialer) readGrant(name string) func(context.Context) (*v1alpha1.SourceGrant, error) {
	return func(ctx context.Context) (*v1alpha1.SourceGrant, error) {
		grant := &v1alpha1.SourceGrant{}
		return grant, d.live.Get(ctx, types.NamespacedName{Name: name}, grant)
	}
}

// grant returns an informer of one SourceGrant. A source may get and watch it by its name, and not list it.
func (d *dialer) grant(name string) (toolscache.SharedIndexInformer, error) {
	live, err := client.NewWithWatch(
		d.config, client.Options{HTTPClient: d.clients, Scheme: d.scheme, Mapper: d.mapper})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return toolscache.NewSharedIndexInformer(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			grant := &v1alpha1.SourceGrant{}
			if err := live.Get(ctx, types.NamespacedName{Name: name}, grant); err != nil {
				return nil, err
			}
			return &v1alpha1.SourceGrantList{
				ListMeta: metav1.ListMeta{ResourceVersion: grant.ResourceVersion},
				Items:    []v1alpha1.SourceGrant{*grant},
			}, nil
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			return live.Watch(ctx, &v1alpha1.SourceGrantList{}, &client.ListOptions{
				FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name), Raw: &o,
			})
		},
	}, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{}), nil
}

// forget ends the watches of namespaces that are not needed any more, until life ends.
func (l *loop) forget(
	life context.Context, c *chaperons.Cache, nodeName string, grant toolscache.SharedIndexInformer,
) {
	ticker := l.options.Clock.NewTicker(forgetInterval)
	defer ticker.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C():
		}
		if needed, err := l.needed(life, nodeName, lastOf(grant)); err == nil {
			c.Forget(needed.Has)
		}
	}
}

// noting is a client that notes in which namespaces it creates objects.
type noting struct {
	client.Client

	copied *engage.Copied
	grant  *engage.Grant
}

// Create creates an object.
func (n *noting) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if namespace := o.GetNamespace(); namespace != "" {
		n.copied.Note(namespace)
		n.grant.Used(namespace)
	}
	return n.Client.Create(ctx, o, options...)
}
