package env

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/wire"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// Target is a cluster as a source knows it: by the name of a (Cluster)Target, with a login. NewTarget makes one that
// is not engaged. Tests may change the exported fields until they engage it.
type Target struct {
	// Target is the last engagement. Every Engage replaces it, so tests read it anew.
	*engage.Target

	// Cluster is the target as the administrator sees it.
	Cluster *Cluster
	// Login is the source's login in the target.
	Login *rest.Config
	// Source has the proxies. Without a source there are none.
	Source *Cluster
	// Verifier verifies the proofs of PodChaperons: by default those by Sign.
	Verifier gate.Verifier
	// Cached says that Client reads PodChaperons from a cache, as in the product. Otherwise it reads directly.
	Cached bool
	// Customize, if there is one, changes each engagement before the observers get it.
	Customize func(*engage.Target)

	registry  *engage.Registry
	disengage func()
}

// NewTarget returns the (Cluster)Target of the name given, which leads to a cluster with the rights of an
// administrator.
func NewTarget(cluster *Cluster, key types.NamespacedName) *Target {
	return &Target{
		Target: newEngagement(key), Cluster: cluster, Login: cluster.Config, Verifier: Verifier{}, disengage: func() {},
	}
}

func newEngagement(key types.NamespacedName) *engage.Target {
	return &engage.Target{Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key)}
}

// Engage engages the target until the test ends or Disengage is called. A target that is engaged already is engaged
// anew, as one that was lost and answers again.
func (target *Target) Engage(t T, registry *engage.Registry) {
	t.Helper()
	target.disengage()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	engagement := newEngagement(target.Key)
	engagement.Config = target.Login
	engagement.Account = wire.NewAccount(wire.Default(), clock.RealClock{})
	direct := ClientFor(t, target.Login)
	engagement.Gate = target.gate(engagement)
	engagement.APIReader = engagement.Gate.Reader(direct)
	engagement.Client = engagement.Gate.Client(engagement.APIReader, direct)
	stopCache := func() {}
	if target.Cached {
		stopCache = addCache(t, engagement, direct)
	}
	if target.Customize != nil {
		target.Customize(engagement)
	}
	target.Target, target.registry = engagement, registry
	target.disengage = func() {
		registry.Disengage(engagement)
		cancel()
		stopCache()
	}
	t.Cleanup(target.Disengage)
	Must(t, registry.Engage(ctx, engagement))
}

// Disengage ends the work with the target. Doing so twice is harmless.
func (target *Target) Disengage() { target.disengage() }

// Lose has the source notice that the target's API server does not answer any more. With Engage it answers again.
func (target *Target) Lose() { target.registry.Lose(target.Target) }

// gate returns the gate of an engagement, as pkg/connect/target makes it.
func (target *Target) gate(engagement *engage.Target) *gate.Gate {
	var proxies client.Reader = fake.NewClientBuilder().WithScheme(Scheme()).Build()
	if target.Source != nil {
		proxies = target.Source.Client
	}
	return &gate.Gate{
		Key:      engagement.Key,
		NodeName: engagement.NodeName,
		Allows:   engagement.Allows,
		Verifier: target.Verifier,
		Proxies:  proxies,
	}
}

// addCache makes the client of an engagement read PodChaperons from a cache, and write directly.
func addCache(t T, engagement *engage.Target, direct client.Client) (stop func()) {
	t.Helper()
	chaperons := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelTargetHash: engagement.Hash})}
	if engagement.Key.Namespace != "" {
		chaperons.Namespaces = map[string]cache.Config{engagement.Key.Namespace: {}}
	}
	c, err := cache.New(engagement.Config, cache.Options{
		Scheme:           Scheme(),
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      engagement.Gate.NewInformer,
		ByObject:         map[client.Object]cache.ByObject{&v1alpha1.PodChaperon{}: chaperons},
	})
	Must(t, err)
	Must(t, c.IndexField(t.Context(), &v1alpha1.PodChaperon{}, engage.IndexParent, func(o client.Object) []string {
		return []string{gate.ParentOf(o).Key.String()}
	}))
	stop = Run(t, c.Start)
	WaitForCache(t, c)
	engagement.Cache = c
	reads, err := client.New(engagement.Config, client.Options{
		Scheme: Scheme(), Cache: &client.CacheOptions{Reader: c},
	})
	Must(t, err)
	engagement.Client = engagement.Gate.Client(reads, direct)
	return stop
}

// Copied returns what a source learns of its copies from a SourceGrant, for a Target that it reads by namespace. Set it
// in Customize.
func (c *Cluster) Copied(t T, grant *v1alpha1.SourceGrant) *engage.Copied {
	t.Helper()
	live, err := client.NewWithWatch(c.Config, client.Options{Scheme: Scheme()})
	Must(t, err)
	named := client.MatchingFields{metav1.ObjectNameField: grant.Name}
	grants := watch.ListerWatcher(live, &v1alpha1.SourceGrantList{}, named)
	informer := toolscache.NewSharedIndexInformer(grants, &v1alpha1.SourceGrant{}, 0, toolscache.Indexers{})
	Run(t, func(ctx context.Context) error {
		informer.RunWithContext(ctx)
		return nil
	})
	Eventually(t, func(context.Context) error {
		if !informer.HasSynced() {
			return errors.New("the SourceGrant is not known")
		}
		return nil
	})
	return engage.NewCopied(informer)
}
