package services

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/follow/writer"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	workersName      = "services"
	workersPerTarget = 4
	firstRetry       = 5 * time.Millisecond
	lastRetry        = 30 * time.Second
	// refusedRetry is the delay before a retry of an error that only a person can correct. The correction may be in the
	// target, where we do not see it.
	refusedRetry = 2 * time.Minute
	exportsRetry = 5 * time.Second
)

// Options configures a Follower. All fields are required but KeepSecrets and Workers.
type Options struct {
	// Client writes to the source.
	Client client.Client
	// APIReader reads from the source's API server.
	APIReader client.Reader
	// Config reaches the source's API server, without a client-side rate limit.
	Config *rest.Config
	// Mapper knows whether the source has the kind ServiceExport.
	Mapper meta.RESTMapper
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// KeepSecrets keeps Secrets in a target, up to date, for an Ingress there. Without names, it does so no longer. It
	// is called with each reconciliation of the Ingress, except while the target refuses the Ingress.
	KeepSecrets func(ctx context.Context, target *engage.Target, ingress types.NamespacedName, names []string) error
	// Clock measures how long a copy has had no reason, and the time since the last event about an object.
	Clock clock.PassiveClock
	// Recorder records events about Services and Ingresses of the source.
	Recorder events.EventRecorder
	// Logger is for messages about more than one object.
	Logger logr.Logger
	// Workers is the number of workers for each target, and for the source. The default is four.
	Workers int
}

// Follower copies the Services and Ingresses of elected pods to targets. It observes an engage.Registry; Observe it
// before the first target is engaged.
type Follower struct {
	options Options

	originals *originals
	selectors *engage.Workers[item] // for selectors and finalizers in the source
	copiers   engage.PerTarget[*copier]

	mu       sync.RWMutex                       // guards all that follows
	idle     map[types.NamespacedName]time.Time // since when a rewritten selector has no proxies
	disputes map[types.NamespacedName]dispute
}

var (
	_ engage.Observer                = &Follower{}
	_ manager.LeaderElectionRunnable = &Follower{}
)

// New makes a Follower, which does nothing before Start.
func New(options Options) (*Follower, error) {
	f := &Follower{
		options:  options,
		idle:     map[types.NamespacedName]time.Time{},
		disputes: map[types.NamespacedName]dispute{},
	}
	f.selectors = f.newWorkers(reconcile.TypedFunc[item](f.reconcileSource), f.options.Logger)
	var err error
	f.originals, err = newOriginals(options.Config, f.route, f.compare, f.troubled)
	return f, err
}

// NeedLeaderElection returns true: one replica does the work.
func (f *Follower) NeedLeaderElection() bool { return true }

// Start works until ctx ends. It is called once, before or after Engaged.
func (f *Follower) Start(ctx context.Context) error {
	if err := f.findExports(ctx); err != nil {
		return nil //nolint:nilerr // ctx has ended.
	}
	if err := f.selectors.Start(ctx); err != nil {
		return err
	}
	return f.originals.run(ctx)
}

// findExports finds out whether the source has the kind ServiceExport: exported Services are not followed. It asks
// until it knows, and returns an error only when ctx has ended.
func (f *Follower) findExports(ctx context.Context) error {
	return wait.PollUntilContextCancel(ctx, exportsRetry, true, func(context.Context) (bool, error) {
		kind := schema.GroupKind{Group: "multicluster.x-k8s.io", Kind: "ServiceExport"}
		mapping, err := f.options.Mapper.RESTMapping(kind)
		switch {
		case err == nil:
			f.originals.exports = &mapping.Resource
		case !meta.IsNoMatchError(err):
			f.options.Logger.Error(
				err,
				"Services are not followed before it is known whether this cluster has the kind ServiceExport; "+
					"trying again",
			)
			return false, nil
		}
		return true, nil
	})
}

// Engaged starts the target's workers, which stop with ctx, and enqueues everything that is or belongs in the target.
func (f *Follower) Engaged(ctx context.Context, target *engage.Target) error {
	c := f.newCopier(ctx, target)
	f.copiers.Set(ctx, target, c)
	context.AfterFunc(ctx, func() { c.handOver(context.WithoutCancel(ctx)) })
	if err := c.workers.Start(ctx); err != nil {
		return err
	}
	if err := engage.OnEvents(ctx, target, &v1alpha1.PodChaperon{}, c.chaperonSeen, c.chaperonGone); err != nil {
		return err
	}
	c.workers.Queue.Add(item{}) // to look for copies
	c.compare("")
	if target.Copied != nil {
		return target.Copied.OnChange(ctx, c.grantChanged)
	}
	return nil
}

func (f *Follower) newCopier(ctx context.Context, target *engage.Target) *copier {
	c := &copier{
		follower:  f,
		desired:   desired{origin: f.options.Source, target: target.Key, nodeName: target.NodeName},
		target:    target,
		writer:    writer.NewWriter(target.Client, target.APIReader, f.options.Source),
		trial:     writer.NewWriter(client.NewDryRunClient(target.Client), target.APIReader, f.options.Source),
		objects:   sync.OnceValues(target.Objects),
		life:      ctx,
		existing:  map[string]*existing{},
		busy:      map[string]int{},
		chaperons: map[string]sets.Set[string]{},
		idle:      map[types.NamespacedName]time.Time{},
		copied:    map[types.NamespacedName]bool{},
		ensured:   map[types.NamespacedName]bool{},
		expected:  map[types.NamespacedName]*expectation{},
		noted:     map[item]noted{},
		partly:    map[types.NamespacedName]time.Time{},
		secured:   map[types.NamespacedName]bool{},
		classes:   sets.New[string](),
		unknown:   sets.New[string](),
	}
	c.workers = f.newWorkers(c, f.options.Logger.WithValues("target", target.Key))
	return c
}

func (f *Follower) newWorkers(reconciler reconcile.TypedReconciler[item], logger logr.Logger) *engage.Workers[item] {
	return engage.NewWorkers(engage.WorkersOptions[item]{
		Name:       workersName,
		Reconciler: reconciler,
		Count:      cmp.Or(f.options.Workers, workersPerTarget),
		FirstRetry: firstRetry,
		LastRetry:  lastRetry,
		Logger:     logger,
	})
}

// route enqueues an item that changed in the source, for the source and for all targets.
func (f *Follower) route(i item) {
	f.selectors.Queue.Add(i)
	for _, c := range f.copiers.All() {
		if c.target.Allows(i.Namespace) {
			c.workers.Queue.Add(i)
		}
	}
}

// compare enqueues all items of a namespace, for the source and for all targets. An empty name stands for all
// namespaces.
func (f *Follower) compare(namespace string) {
	for _, i := range f.originals.items(namespace) {
		f.selectors.Queue.Add(i)
	}
	for _, c := range f.copiers.All() {
		c.compare(namespace)
	}
}

func (f *Follower) troubled(err error) {
	if apierrors.IsForbidden(err) {
		f.options.Logger.Error(
			err,
			"Services are not followed without the right to list and watch them, their EndpointSlices and Ingresses",
		)
		return
	}
	f.options.Logger.V(1).Info("A watch ended", "reason", err.Error())
}

// withProtobuf returns a configuration for kinds that have a protobuf encoding.
func withProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}
