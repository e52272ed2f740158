package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/chaperons"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/hold"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/identity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The first list of the target's objects may have ten thousand. In a target that does answer, though slowly, several
// requests one after the other may take slowSyncTimeout.
const (
	syncTimeout     = 30 * time.Second
	slowSyncTimeout = 2 * time.Minute
)

var errNotSynced = errors.New("its objects could not be listed in time")

// engagement is one connection to a target that is or was in the Registry.
type engagement struct {
	target      *engage.Target
	fingerprint string
	version     string
	labels      map[string]string // of the last ClusterSummary
	// life is that of its connection, and end ends it. rest ends the work of observers before that. It is nil if the
	// target was never in the Registry.
	life      context.Context //nolint:containedctx // it is what ends
	end, rest context.CancelFunc
	creator   *creator
	self      bool // the target is the source itself, by its spec
	dialer    *dialer
	// hold is nil if the target has no Lease for this source.
	hold         *hold.Hold
	leases       leases
	leasesSought time.Time
	// sharedWith is the cluster that holds this source's Lease, with the same user, or empty.
	sharedWith string
	// checks counts health checks. latest is what the last ClusterSummary said of the cluster, or nil if it failed.
	// relied says whether the last check relied on a renewal.
	checks int
	latest *v1alpha1.ClusterSummary
	relied bool
	// identity is the cluster that the engagement is with.
	identity *identity.Identity
	// unproved says that the target claims to be the source cluster, and has not proved it.
	unproved bool
	// invalid is why the gate refused the ClusterSummary, or nil.
	invalid *gate.ForgedError
	// grant knows the SourceGrant. It is nil if there is none, or none is needed.
	grant *engage.Grant
	// watchError is the last error of the cache's watches.
	watchError atomic.Pointer[error]
	// ahead is by how much the target's clock is ahead of this cluster's, to the minute.
	ahead time.Duration
}

// noKeyError says that the source has no key, so that it cannot recognise what it made.
type noKeyError struct{ cause error }

// Error is the cause.
func (e *noKeyError) Error() string { return e.cause.Error() }

// engage connects to the target, and puts it into the Registry in place of an earlier engagement. The attempt ends with
// ctx. The engagement lasts until it is disengaged and ended, at most until life ends.
func (l *loop) engage(ctx, life context.Context, w want) (*engagement, error) {
	e, err := l.reach(ctx, life, w)
	if err != nil {
		return nil, err
	}
	l.passPolicy(e.target)
	working, rest := context.WithCancel(e.life)
	e.rest = rest
	if err := l.options.Registry.Engage(working, e.target); err != nil {
		e.end()
		return nil, e.identity.Explain(err)
	}
	looking := &strays{options: l.options, target: e.target, live: e.dialer.live, grant: e.leases.grant}
	go looking.end(log.IntoContext(e.life, log.FromContext(ctx)))
	return e, nil
}

// reach connects to the target, as engage does, and does not put it into the Registry.
func (l *loop) reach(ctx, life context.Context, w want) (*engagement, error) {
	if err := l.waitForOwnAddresses(ctx); err != nil {
		return nil, err
	}
	who := l.belongsTo(w)
	d, err := l.dial(ctx, w, l.options.Tokens.Attach, who)
	if err != nil {
		return nil, err
	}
	parent := life
	life, cancel := context.WithCancel(parent)
	e := &engagement{
		fingerprint: w.fingerprint, self: w.self, identity: who, dialer: d, life: life,
		creator: &creator{all: l.creations},
	}
	e.end = func() { e.creator.stop(); e.release(parent); cancel(); d.close() }
	if err := l.connect(ctx, life, d, e); err != nil {
		e.end()
		return nil, who.Explain(err)
	}
	return e, nil
}

// ownAddressesError says that the source does not know its own addresses, so that targets could claim them.
type ownAddressesError struct{ cause error }

// Error is the cause.
func (e *ownAddressesError) Error() string { return e.cause.Error() }

func (l *loop) waitForOwnAddresses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeouts.Request)
	defer cancel()
	if err := l.options.Addresses.Wait(ctx); err != nil {
		return &ownAddressesError{err}
	}
	return nil
}

// belongsTo returns the identity of the cluster that the target belongs to.
func (l *loop) belongsTo(w want) *identity.Identity {
	if w.self {
		return identity.New("")
	}
	return identity.New(cmp.Or(w.pin, l.known))
}

// connect fills in the engagement. It reads the version and the ClusterSummary, which shows whether our rights and
// kinds exist, and then starts the cache. Nothing in an invalid ClusterSummary is believed.
func (l *loop) connect(ctx, life context.Context, d *dialer, e *engagement) error {
	verifier, err := l.options.Verifier()
	if err != nil {
		return &noKeyError{err}
	}
	err = l.persistently(ctx, func() (err error) { e.version, err = d.version(ctx); return err })
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	e.target = l.newTarget(d, d.live, verifier)
	err = l.persistently(ctx, func() (err error) { _, e.invalid, err = e.check(ctx); return err })
	if err != nil {
		return err
	}
	if e.target.ClusterID = e.identity.ClusterID(); e.self {
		e.target.ClusterID = l.options.Source.ClusterID
	}
	if e.target.Itself, err = l.isItself(ctx, d, e); err != nil {
		return err
	}
	if err := l.holdTarget(ctx, life, d, e); err != nil {
		return err
	}
	if e.target.Cache, err = l.startCache(ctx, life, d, e); err != nil {
		return err
	}
	if e.creator.Client, err = d.client(e.target.Cache); err != nil {
		return err
	}
	writes := client.Client(e.creator)
	if byNamespace, ok := e.target.Cache.(*chaperons.Cache); ok {
		writes = &noting{byNamespace.Writer(writes), e.target.Copied, e.grant}
	}
	e.target.Client = e.target.Gate.Client(e.target.Cache, writes)
	return nil
}

// isItself says whether the target is the source cluster. The cluster ID that a target tells proves nothing.
func (l *loop) isItself(ctx context.Context, d *dialer, e *engagement) (bool, error) {
	if e.self || e.target.ClusterID == "" || e.target.ClusterID != l.options.Source.ClusterID {
		return e.self, nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.deadline())
	defer cancel()
	proved, err := identity.SameServer(ctx, l.options.Config, d.config.Host, d.config.Transport)
	e.unproved = !proved
	return proved, err
}

// newTarget returns the target with its gate, and without what connect adds. live reads from its API server.
func (l *loop) newTarget(d *dialer, live client.Reader, verifier gate.Verifier) *engage.Target {
	target := &engage.Target{
		Key:      l.key,
		NodeName: translate.VirtualNodeName(l.key),
		Hash:     translate.TargetHash(l.key),
		Account:  d.account,
		Config:   d.config,
	}
	target.Gate = &gate.Gate{
		Key:      target.Key,
		NodeName: target.NodeName,
		Allows:   target.Allows,
		Verifier: verifier,
		Proxies:  l.options.Client,
	}
	target.APIReader = target.Gate.Reader(live)
	return target
}

// release ends the hold, if there is one. If life has ended, the next leader gets it at once. It has to wait until the
// Lease expires if the target may still create a PodChaperon of which that leader would not know: requests that are
// under way end with life, and their answers are not heard.
func (e *engagement) release(life context.Context) {
	if e.hold != nil {
		e.hold.Release(context.WithoutCancel(life), life.Err() != nil && e.creator.all.clear())
	}
}

// invalidSummary returns the error if it says that the gate refuses the target's ClusterSummary.
func invalidSummary(err error) *gate.ForgedError {
	var forged *gate.ForgedError
	errors.As(err, &forged)
	return forged
}

// summary reads the ClusterSummary from the target's API server. With an error that says that the gate refuses the
// ClusterSummary, it is returned, too.
func (e *engagement) summary(ctx context.Context) (*v1alpha1.ClusterSummary, error) {
	ctx, cancel := context.WithTimeout(ctx, e.dialer.deadline())
	defer cancel()
	summary := &v1alpha1.ClusterSummary{}
	if err := e.target.APIReader.Get(
		ctx,
		types.NamespacedName{Name: v1alpha1.ClusterSummaryName},
		summary,
	); err != nil {
		return summary, fmt.Errorf("getting the ClusterSummary: %w", err)
	}
	e.labels = summary.Labels
	e.compare(e.target.Account.Ahead())
	return summary, nil
}

// denied says whether the API server no longer lets the cache watch, because rights were withdrawn, say, or the kinds
// were removed. The cache is then stale, although health checks succeed.
func (e *engagement) denied() bool {
	err := e.watchError.Load()
	return err != nil && (apierrors.IsForbidden(*err) || apierrors.IsUnauthorized(*err) || apierrors.IsNotFound(*err))
}

// startCache returns a cache behind the gate that has synced and runs until life ends. It stores the last error of the
// cache's watches in the engagement.
func (l *loop) startCache(ctx, life context.Context, d *dialer, e *engagement) (cache.Cache, error) {
	ctx, cancel := context.WithTimeout(ctx, l.syncTimeout())
	defer cancel()
	failed := l.watchFailed(e, cancel)
	everywhere, err := l.readsEverywhere(ctx, d)
	if err != nil {
		return nil, err
	}
	kinds := map[client.Object]cache.ByObject{&v1alpha1.ClusterSummary{}: summaryOptions()}
	if everywhere {
		kinds[&v1alpha1.PodChaperon{}] = l.chaperonOptions(l.key.Namespace)
	}
	c, err := d.cache(e.cacheOptions(kinds, failed))
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	if err := prepare(ctx, c, everywhere); err != nil {
		return nil, err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(life) }()
	switch {
	case !c.WaitForCacheSync(ctx):
		return nil, syncError(&e.watchError, stopped)
	case everywhere:
		return c, nil
	}
	byNamespace := chaperons.New(
		life, c, l.makerOfCaches(ctx, d, e, failed), l.options.Clock, e.target.ConfirmsNothingIn)
	if err := l.watchNamespaces(ctx, life, d, e, byNamespace); err != nil {
		if e.watchError.Load() != nil {
			err = syncError(&e.watchError, stopped)
		}
		return nil, err
	}
	return byNamespace, nil
}

// syncTimeout bounds the first list of the target's objects.
func (l *loop) syncTimeout() time.Duration {
	if l.wary() && l.heard() {
		return slowSyncTimeout
	}
	return syncTimeout
}

// watchFailed returns a function that stores the error of a watch, and ends the attempt to start the cache, unless the
// target does answer. Once the cache has synced, the watch is resumed in any case.
func (l *loop) watchFailed(e *engagement, end func()) toolscache.WatchErrorHandlerWithContext {
	return func(_ context.Context, _ *toolscache.Reflector, err error) {
		e.watchError.Store(&err)
		if !isPassing(err) || !l.heard() {
			end()
		}
	}
}

func (e *engagement) cacheOptions(
	kinds map[client.Object]cache.ByObject, failed toolscache.WatchErrorHandlerWithContext,
) cache.Options {
	return cache.Options{
		ReaderFailOnMissingInformer: true,
		NewInformer:                 e.target.Gate.NewInformer,
		ByObject:                    kinds,
		DefaultWatchErrorHandler:    failed,
	}
}

// prepare makes the informers of a cache.
func prepare(ctx context.Context, c cache.Cache, chaperons bool) error {
	if chaperons {
		if err := c.IndexField(ctx, &v1alpha1.PodChaperon{}, engage.IndexParent, parentKey); err != nil {
			return fmt.Errorf("indexing PodChaperons: %w", err)
		}
	}
	if _, err := c.GetInformer(ctx, &v1alpha1.ClusterSummary{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching the ClusterSummary: %w", err)
	}
	return nil
}

// syncError says why the cache has not synced.
func syncError(watchError *atomic.Pointer[error], stopped <-chan error) error {
	if err := watchError.Load(); err != nil {
		return fmt.Errorf("listing: %w", *err)
	}
	select {
	case err := <-stopped:
		return fmt.Errorf("starting the cache: %w", err)
	default:
		return errNotSynced
	}
}

// chaperonOptions selects the PodChaperons of this source cluster and this target, in a namespace or, if it is empty,
// in all.
func (l *loop) chaperonOptions(namespace string) cache.ByObject {
	selected := cache.ByObject{Label: labels.SelectorFromSet(l.ours())}
	if namespace != "" {
		selected.Namespaces = map[string]cache.Config{namespace: {}}
	}
	return selected
}

// ours are the labels of the PodChaperons of this source cluster and this target.
func (l *loop) ours() labels.Set {
	return labels.Set{
		v1alpha1.LabelParentClusterID: l.options.Source.ClusterID,
		v1alpha1.LabelTargetHash:      translate.TargetHash(l.key),
	}
}

func summaryOptions() cache.ByObject {
	return cache.ByObject{
		Field:     fields.OneTermEqualSelector("metadata.name", v1alpha1.ClusterSummaryName),
		Transform: cache.TransformStripManagedFields(),
	}
}

func parentKey(o client.Object) []string { return []string{gate.ParentOf(o).Key.String()} }
