package services

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	name = "services"

	callTimeout = 10 * time.Second
	workers     = 4
	firstRetry  = 5 * time.Millisecond
	lastRetry   = 30 * time.Second
	// refusedRetry is when to try again what only a person can mend, perhaps in the target, of which we do not learn.
	refusedRetry = 2 * time.Minute
	exportsRetry = 5 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[item]

// Options are what a Follower works with. All are required but HoldSecrets and Workers.
type Options struct {
	// Client writes to the source.
	Client client.Client
	// APIReader reads from the source's API server.
	APIReader client.Reader
	// Config reaches the source's API server, without client-side rate limit.
	Config *rest.Config
	// Mapper tells whether the source has ServiceExports.
	Mapper meta.RESTMapper
	// Source says who the source is.
	Source translate.Source
	// HoldSecrets has Secrets in a target, and keeps them up to date, for an Ingress there; without names, no longer.
	// It is called whenever the Ingress is looked at.
	HoldSecrets func(ctx context.Context, target *engage.Target, ingress types.NamespacedName, names []string) error
	// Clock tells how long a copy has not been wanted.
	Clock clock.PassiveClock
	// Recorder records events about Services and Ingresses of the source.
	Recorder events.EventRecorder
	// Logger is for what is not the reconciliation of one object.
	Logger logr.Logger
	// Workers is how many items are worked on at a time for each target, and for the source; four by default.
	Workers int
}

// Follower has Services and Ingresses follow elected pods. It observes an engage.Registry (Observe it before the first
// target is engaged).
type Follower struct {
	Options

	originals *originals
	selectors queue // of items of the source whose selector, or finalizers, may have to change

	mu      sync.RWMutex // guards all that follows
	copiers map[*engage.Target]*copier
	idle    map[types.NamespacedName]time.Time // since when a rewritten selector has found no proxies
	quarrel map[types.NamespacedName]quarrel
}

var (
	_ engage.Observer                = &Follower{}
	_ manager.LeaderElectionRunnable = &Follower{}
)

// New makes a Follower, which does nothing before Start.
func New(options Options) (*Follower, error) {
	f := &Follower{
		Options:   options,
		selectors: newQueue(limiter()),
		copiers:   map[*engage.Target]*copier{},
		idle:      map[types.NamespacedName]time.Time{},
		quarrel:   map[types.NamespacedName]quarrel{},
	}
	var err error
	f.originals, err = newOriginals(options.Config, f.route, f.compare, f.troubled)
	return f, err
}

// NeedLeaderElection says that one replica is enough.
func (f *Follower) NeedLeaderElection() bool { return true }

// Start works until ctx ends. It is called once, and may be called before or after Engaged.
func (f *Follower) Start(ctx context.Context) error {
	if err := f.findExports(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended.
	}
	if err := f.run(ctx, f.selectors, limiter(), reconcile.TypedFunc[item](f.reconcileSource), f.Logger); err != nil {
		return err
	}
	return f.originals.run(ctx)
}

// findExports returns once it is known whether there are ServiceExports: what they export is not to be followed. Its
// error is that ctx has ended.
func (f *Follower) findExports(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, exportsRetry, true, func(context.Context) (bool, error) {
		mapping, err := f.Mapper.RESTMapping(schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"})
		switch {
		case err == nil:
			f.originals.exports = &mapping.Resource
		case !meta.IsNoMatchError(err):
			f.Logger.Error(
				err,
				"Services are not followed before it is known whether this cluster has the kind ServiceExport; "+
					"trying again",
			)
			return false, nil
		}
		return true, nil
	})
}

// Engaged starts the target's workers, which stop with ctx, and has them compare what is there with what is to be
// there.
func (f *Follower) Engaged(ctx context.Context, target *engage.Target) error {
	limits := limiter()
	c := &copier{
		Follower:  f,
		desired:   desired{origin: f.Source, targetHash: target.Hash, nodeName: target.NodeName},
		target:    target,
		writer:    writer.NewWriter(target.Client, target.APIReader, f.Source),
		queue:     newQueue(limits),
		chaperons: map[string]int{},
		idle:      map[types.NamespacedName]time.Time{},
		copied:    map[types.NamespacedName]bool{},
		noted:     map[item]string{},
		held:      map[types.NamespacedName]bool{},
	}
	c.watch = sync.OnceValues(
		func() (*existing, error) { return watchExisting(ctx, target, f.Source.ClusterID, c.queue.Add) },
	)
	if err := f.run(ctx, c.queue, limits, c, f.Logger.WithValues("target", target.Key)); err != nil {
		return err
	}
	f.mu.Lock()
	f.copiers[target] = c
	f.mu.Unlock()
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		delete(f.copiers, target)
		f.mu.Unlock()
		c.leave(context.WithoutCancel(ctx))
	})
	if err := c.countChaperons(ctx); err != nil {
		return err
	}
	c.queue.Add(item{}) // to look for copies
	c.compare("")
	return nil
}

// run workers until ctx ends.
func (f *Follower) run(
	ctx context.Context,
	q queue,
	limits workqueue.TypedRateLimiter[item],
	reconciler reconcile.TypedReconciler[item],
	logger logr.Logger,
) error {
	c, err := controller.NewTypedUnmanaged(name, controller.TypedOptions[item]{
		Reconciler:              reconciler,
		MaxConcurrentReconciles: cmp.Or(f.Workers, workers),
		SkipNameValidation:      ptr.To(true), // There is one for each target.
		RateLimiter:             limits,
		NewQueue:                func(string, workqueue.TypedRateLimiter[item]) queue { return q },
		Logger:                  logger,
	})
	if err != nil {
		return fmt.Errorf("making a controller: %w", err)
	}
	go func() {
		if err := c.Start(ctx); err != nil {
			logger.Error(err, "Following Services ended")
		}
	}()
	return nil
}

func limiter() workqueue.TypedRateLimiter[item] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[item](firstRetry, lastRetry)
}

func newQueue(limits workqueue.TypedRateLimiter[item]) queue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		limits,
		workqueue.TypedRateLimitingQueueConfig[item]{Name: name},
	)
}

// route enqueues what changed in the source, everywhere.
func (f *Follower) route(i item) {
	f.selectors.Add(i)
	for _, c := range f.all() {
		if c.target.Allows(i.Namespace) {
			c.queue.Add(i)
		}
	}
}

// compare enqueues what there is in a namespace, or in all, everywhere.
func (f *Follower) compare(namespace string) {
	for _, i := range f.originals.items(namespace) {
		f.selectors.Add(i)
	}
	for _, c := range f.all() {
		c.compare(namespace)
	}
}

func (f *Follower) all() []*copier {
	f.mu.RLock()
	defer f.mu.RUnlock()
	all := make([]*copier, 0, len(f.copiers))
	for _, c := range f.copiers {
		all = append(all, c)
	}
	return all
}

func (f *Follower) troubled(err error) {
	if apierrors.IsForbidden(err) {
		f.Logger.Error(
			err,
			"Services are not followed without the right to list and watch them, their EndpointSlices and Ingresses",
		)
		return
	}
	f.Logger.V(1).Info("A watch ended", "reason", err.Error())
}

// countChaperons counts the PodChaperons of each namespace, now and whenever some come or go.
func (c *copier) countChaperons(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	informer, err := c.target.Cache.GetInformer(ctx, &v1alpha1.PodChaperon{})
	if err != nil {
		return fmt.Errorf("getting the informer of PodChaperons: %w", err)
	}
	counting := func(n int) func(any) {
		return func(object any) {
			if tombstone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
				object = tombstone.Obj
			}
			if chaperon, ok := object.(*v1alpha1.PodChaperon); ok {
				c.count(chaperon.Namespace, n)
			}
		}
	}
	if _, err := informer.AddEventHandler(
		toolscache.ResourceEventHandlerFuncs{AddFunc: counting(1), DeleteFunc: counting(-1)},
	); err != nil {
		return fmt.Errorf("handling events of PodChaperons: %w", err)
	}
	return nil
}

// withProtobuf returns a configuration for kinds that have it.
func withProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
