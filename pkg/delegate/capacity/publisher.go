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
)

const (
	defaultGather   = 50 * time.Millisecond
	defaultInterval = 500 * time.Millisecond

	versionInterval = 10 * time.Minute
	versionRetry    = 10 * time.Second
	// deadline is for the requests of one publication.
	deadline = 10 * time.Second
)

// Options are what a Publisher needs; all before ExcludedLabels must be set.
type Options struct {
	// Client reads the ClusterSummary from Cache, and writes.
	Client client.Client
	// Cache has the cluster's nodes and pods, transformed by package podcache or whole.
	Cache cache.Cache
	// Version asks the API server for its version.
	Version discovery.ServerVersionInterfaceWithContext
	Clock   clock.Clock
	// ClusterID is the cluster's own.
	ClusterID string
	// ExcludedLabels keeps the labels of nodes whose key=value it matches in the cluster. Nil excludes none.
	ExcludedLabels *regexp.Regexp

	// Gather is how long after a first change others are waited for, by default 50 ms.
	Gather time.Duration
	// Interval is at least between two publications, by default 500 ms.
	Interval time.Duration
}

// Publisher keeps the ClusterSummary up to date.
type Publisher struct {
	options Options
	account *account
	changed chan struct{} // holds one signal
	version string        // of the goroutine of Start
}

// New makes a Publisher, which does nothing before it is started.
func New(options Options) *Publisher {
	if options.Gather == 0 {
		options.Gather = defaultGather
	}
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	return &Publisher{options: options, account: newAccount(options.ExcludedLabels), changed: make(chan struct{}, 1)}
}

// Register has a manager start the Publisher on the replica that leads.
func (p *Publisher) Register(mgr manager.Manager) error {
	return mgr.Add(p)
}

// Start publishes until the context ends. The ClusterSummary is first written when all nodes and pods are known.
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
		case <-p.changed:
			p.wait(ctx, p.options.Gather)
			p.publishOnce(ctx)
			p.wait(ctx, p.options.Interval)
		}
	}
}

// publishOnce publishes all changes up to now. If that fails, it will be tried again after the interval.
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

// writeTotals writes what changes when nodes do, and returns the object as it is then.
func (p *Publisher) writeTotals(ctx context.Context, current, wanted *v1alpha1.ClusterSummary) (*v1alpha1.ClusterSummary, error) {
	if equality.Semantic.DeepEqual(current.Labels, wanted.Labels) &&
		equality.Semantic.DeepEqual(current.Capacity, wanted.Capacity) &&
		equality.Semantic.DeepEqual(current.Allocatable, wanted.Allocatable) {
		return current, nil
	}
	changed := current.DeepCopy()
	changed.Labels, changed.Capacity, changed.Allocatable = wanted.Labels, wanted.Capacity, wanted.Allocatable
	return changed, p.options.Client.Patch(ctx, changed, client.MergeFrom(current), client.FieldOwner(v1alpha1.FieldOwner))
}

// writeStatus writes what changes when pods do.
func (p *Publisher) writeStatus(ctx context.Context, current, wanted *v1alpha1.ClusterSummary) error {
	if equality.Semantic.DeepEqual(current.Status, wanted.Status) {
		return nil
	}
	changed := current.DeepCopy()
	changed.Status = wanted.Status
	return p.options.Client.Status().Patch(ctx, changed, client.MergeFrom(current), client.FieldOwner(v1alpha1.FieldOwner))
}

// readVersion asks for the API server's version and returns when to ask again.
func (p *Publisher) readVersion(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	info, err := p.options.Version.ServerVersionWithContext(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "The API server does not tell its version; asking again")
		return versionRetry
	}
	p.notify(info.GitVersion != p.version)
	p.version = info.GitVersion
	return versionInterval
}

// notify asks for a publication if there is a change.
func (p *Publisher) notify(changed bool) {
	if !changed {
		return
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *Publisher) wait(ctx context.Context, duration time.Duration) {
	timer := p.options.Clock.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
