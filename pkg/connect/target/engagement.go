package target

import (
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

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// syncTimeout bounds the first list of the target's objects. There may be ten thousand.
const syncTimeout = 30 * time.Second

var errNotSynced = errors.New("its objects could not be listed in time")

// engagement is one connection to a target that is or was in the Registry.
type engagement struct {
	target      *engage.Target
	fingerprint string
	version     string
	end         context.CancelFunc
	// watchError is the last error of the cache's watches.
	watchError atomic.Pointer[error]
}

// engage connects to the target, and puts it into the Registry in place of an earlier engagement. The attempt ends with
// ctx. The engagement lasts until it is disengaged and ended, at most until life ends.
func (l *loop) engage(ctx, life context.Context, w want) (*engagement, error) {
	d, err := l.dial(w)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(life)
	e := &engagement{fingerprint: w.fingerprint, end: func() { cancel(); d.close() }}
	if err := l.connect(ctx, life, d, e); err != nil {
		e.end()
		return nil, err
	}
	e.target.Itself = e.target.Itself || w.self
	l.passPolicy(e.target)
	if err := l.options.Registry.Engage(life, e.target); err != nil {
		e.end()
		return nil, err
	}
	return e, nil
}

// connect fills in the engagement. It reads the version and the ClusterSummary, which shows whether our rights and
// kinds exist, and then starts the cache.
func (l *loop) connect(ctx, life context.Context, d *dialer, e *engagement) error {
	version, err := d.version(ctx)
	if err != nil {
		return fmt.Errorf("asking for the version: %w", err)
	}
	reader, err := d.reader()
	if err != nil {
		return err
	}
	e.version = version
	e.target = &engage.Target{
		Key:       l.key,
		NodeName:  translate.VirtualNodeName(l.key),
		Hash:      translate.TargetHash(l.key),
		Config:    d.config,
		APIReader: reader,
	}
	summary, err := e.summary(ctx)
	if err != nil {
		return err
	}
	e.target.ClusterID = summary.Status.ClusterID
	e.target.Itself = summary.Status.ClusterID != "" && summary.Status.ClusterID == l.options.Source.ClusterID
	if e.target.Cache, err = l.startCache(ctx, life, d, &e.watchError); err != nil {
		return err
	}
	e.target.Client, err = d.client(e.target.Cache)
	return err
}

// summary reads the ClusterSummary from the target's API server.
func (e *engagement) summary(ctx context.Context) (*v1alpha1.ClusterSummary, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	summary := &v1alpha1.ClusterSummary{}
	if err := e.target.APIReader.Get(
		ctx,
		types.NamespacedName{Name: v1alpha1.ClusterSummaryName},
		summary,
	); err != nil {
		return nil, fmt.Errorf("getting the ClusterSummary: %w", err)
	}
	return summary, nil
}

// denied says whether the API server no longer lets the cache watch, because rights were withdrawn, say, or the kinds
// were removed. The cache is then stale, although health checks succeed.
func (e *engagement) denied() bool {
	err := e.watchError.Load()
	return err != nil && (apierrors.IsForbidden(*err) || apierrors.IsUnauthorized(*err) || apierrors.IsNotFound(*err))
}

// startCache returns a cache that has synced and runs until life ends. It stores the last error of the cache's watches
// in watchError.
func (l *loop) startCache(
	ctx, life context.Context,
	d *dialer,
	watchError *atomic.Pointer[error],
) (cache.Cache, error) {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	c, err := d.cache(cache.Options{
		ReaderFailOnMissingInformer: true,
		ByObject: map[client.Object]cache.ByObject{
			&v1alpha1.PodChaperon{}:    l.chaperonOptions(),
			&v1alpha1.ClusterSummary{}: summaryOptions(),
		},
		DefaultWatchErrorHandler: func(_ context.Context, _ *toolscache.Reflector, err error) {
			watchError.Store(&err)
			cancel() // This ends the attempt. Once the cache has synced, it does nothing, and the watch is resumed.
		},
	})
	if err != nil {
		return nil, fmt.Errorf("making a cache: %w", err)
	}
	if err := c.IndexField(ctx, &v1alpha1.PodChaperon{}, engage.IndexParent, parentKey); err != nil {
		return nil, fmt.Errorf("indexing PodChaperons: %w", err)
	}
	if _, err := c.GetInformer(ctx, &v1alpha1.ClusterSummary{}, cache.BlockUntilSynced(false)); err != nil {
		return nil, fmt.Errorf("watching the ClusterSummary: %w", err)
	}
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(life) }()
	if c.WaitForCacheSync(ctx) {
		return c, nil
	}
	return nil, syncError(watchError, stopped)
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

// chaperonOptions selects the PodChaperons of this source cluster and this target.
func (l *loop) chaperonOptions() cache.ByObject {
	selected := cache.ByObject{
		Label: labels.SelectorFromSet(labels.Set{
			v1alpha1.LabelParentClusterID: l.options.Source.ClusterID,
			v1alpha1.LabelTargetHash:      translate.TargetHash(l.key),
		}),
		Transform: stripChaperon,
	}
	if l.key.Namespace != "" {
		selected.Namespaces = map[string]cache.Config{l.key.Namespace: {}}
	}
	return selected
}

func summaryOptions() cache.ByObject {
	return cache.ByObject{
		Field:     fields.OneTermEqualSelector("metadata.name", v1alpha1.ClusterSummaryName),
		Transform: cache.TransformStripManagedFields(),
	}
}

// stripChaperon keeps the fields of a PodChaperon that somebody reads: its parent and its status. The source wrote the
// other fields.
func stripChaperon(o any) (any, error) {
	if chaperon, ok := o.(*v1alpha1.PodChaperon); ok {
		chaperon.ManagedFields = nil
		chaperon.Labels = keepKeys(chaperon.Labels, v1alpha1.LabelParentUID)
		chaperon.Annotations = keepKeys(
			chaperon.Annotations,
			v1alpha1.AnnotationParentNamespace,
			v1alpha1.AnnotationParentName,
		)
		chaperon.Spec = v1alpha1.PodChaperon{}.Spec
	}
	return o, nil
}

func keepKeys(all map[string]string, keys ...string) map[string]string {
	kept := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := all[key]; ok {
			kept[key] = value
		}
	}
	return kept
}

func parentKey(o client.Object) []string {
	annotations := o.GetAnnotations()
	key := types.NamespacedName{
		Namespace: annotations[v1alpha1.AnnotationParentNamespace],
		Name:      annotations[v1alpha1.AnnotationParentName],
	}
	if key.Name == "" {
		return nil
	}
	return []string{key.String()}
}
