package capacity

import (
	"context"
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/pause"
)

const (
	defaultGather   = 50 * time.Millisecond
	defaultInterval = 500 * time.Millisecond

	versionInterval = 10 * time.Minute
	versionRetry    = 10 * time.Second
	// deadline bounds the requests of one publication together.
	deadline = 10 * time.Second
)

// Options of New. The fields before ExcludedLabels are required.
type Options struct {
	// Client reads the ClusterSummary from Cache, and writes it.
	Client client.Client
	// Cache has the cluster's nodes and pods, transformed by package podcache or whole, and DeviceClasses.
	Cache cache.Cache
	// Version reads the version of the API server.
	Version discovery.ServerVersionInterfaceWithContext
	Clock   clock.Clock
	// ClusterID is the ID of this cluster.
	ClusterID string
	// ExcludedLabels matches key=value of labels of nodes that are not published. Nil matches none.
	ExcludedLabels *regexp.Regexp

	// Gather is how long the Publisher waits for more changes after a first one. The default is 50 ms.
	Gather time.Duration
	// Interval is the least time between two publications. The default is 500 ms.
	Interval time.Duration
}

// Publisher keeps the ClusterSummary up to date.
type Publisher struct {
	options Options
	account *account
	changed chan struct{} // has room for one signal
	// Only the goroutine of Start uses the fields below.
	version string
	devices bool // DeviceClasses are watched.
}

// New returns a Publisher, which does nothing before Start.
func New(options Options) *Publisher {
	if options.Gather == 0 {
		options.Gather = defaultGather
	}
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	return &Publisher{options: options, account: newAccount(options.ExcludedLabels), changed: make(chan struct{}, 1)}
}

// Register adds the Publisher to the manager, which starts it on the leader.
func (p *Publisher) Register(mgr manager.Manager) error {
	return mgr.Add(p)
}

// Start publishes until ctx ends. It first writes the ClusterSummary when the cache has all nodes and pods.
func (p *Publisher) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("capacity"))
	if err := p.watch(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	p.notify(true)
	version := p.options.Clock.NewTimer(p.readVersion(ctx))
	defer version.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-version.C():
			version.Reset(p.readVersion(ctx))
			p.watchDevices(ctx) // An upgraded API server may have them.
		case <-p.changed:
			pause.For(ctx, p.options.Clock, p.options.Gather)
			p.publishOnce(ctx)
			pause.For(ctx, p.options.Clock, p.options.Interval)
		}
	}
}

// publishOnce publishes all changes until now. After a failure, it makes Start try again after the interval.
func (p *Publisher) publishOnce(ctx context.Context) {
	select {
	case <-p.changed:
	default:
	}
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	if err := p.publish(ctx); err != nil {
		log.FromContext(ctx).Error(err, "The ClusterSummary is out of date; trying again")
		p.notify(true)
	}
}

func (p *Publisher) publish(ctx context.Context) error {
	wanted := p.account.summary()
	wanted.Name = v1alpha1.ClusterSummaryName
	current := &v1alpha1.ClusterSummary{}
	err := p.options.Client.Get(ctx, client.ObjectKeyFromObject(wanted), current)
	if apierrors.IsNotFound(err) {
		current = wanted.DeepCopy()
		err = p.options.Client.Create(ctx, current, client.FieldOwner(v1alpha1.FieldOwner))
	}
	if err != nil {
		return fmt.Errorf("getting or creating the ClusterSummary: %w", err)
	}
	wanted.Status.ClusterID = p.options.ClusterID
	wanted.Status.KubernetesVersion = p.version
	if p.version == "" {
		wanted.Status.KubernetesVersion = current.Status.KubernetesVersion
	}
	if current, err = p.writeTotals(ctx, current, wanted); err != nil {
		return fmt.Errorf("writing the ClusterSummary: %w", err)
	}
	if err := p.writeStatus(ctx, current, wanted); err != nil {
		return fmt.Errorf("writing the status of the ClusterSummary: %w", err)
	}
	return nil
}

// writeTotals writes the fields that change with nodes, and returns the written object.
func (p *Publisher) writeTotals(
	ctx context.Context, current, wanted *v1alpha1.ClusterSummary,
) (*v1alpha1.ClusterSummary, error) {
	if equality.Semantic.DeepEqual(current.Labels, wanted.Labels) &&
		equality.Semantic.DeepEqual(current.Capacity, wanted.Capacity) &&
		equality.Semantic.DeepEqual(current.Allocatable, wanted.Allocatable) {
		return current, nil
	}
	changed := current.DeepCopy()
	changed.Labels, changed.Capacity, changed.Allocatable = wanted.Labels, wanted.Capacity, wanted.Allocatable
	owner := client.FieldOwner(v1alpha1.FieldOwner)
	return changed, p.options.Client.Patch(ctx, changed, client.MergeFrom(current), owner)
}

// writeStatus writes the fields that change with pods.
func (p *Publisher) writeStatus(ctx context.Context, current, wanted *v1alpha1.ClusterSummary) error {
	if equality.Semantic.DeepEqual(current.Status, wanted.Status) {
		return nil
	}
	changed := current.DeepCopy()
	changed.Status = wanted.Status
	owner := client.FieldOwner(v1alpha1.FieldOwner)
	return p.options.Client.Status().Patch(ctx, changed, client.MergeFrom(current), owner)
}

// readVersion reads the API server's version, and returns when to read it again.
func (p *Publisher) readVersion(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	info, err := p.options.Version.ServerVersionWithContext(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "Reading the API server's version failed; trying again")
		return versionRetry
	}
	p.notify(info.GitVersion != p.version)
	p.version = info.GitVersion
	return versionInterval
}

// notify signals Start to publish if there is a change.
func (p *Publisher) notify(changed bool) {
	if !changed {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}
