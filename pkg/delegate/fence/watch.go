package fence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/restriction"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// Options of New. All are required.
type Options struct {
	// Client reads PodChaperons, SourceGrants, ClusterSources and Sources, and may read them from a cache.
	Client client.Reader
	// Clients watch the Leases.
	Clients kubernetes.Interface
	// Namespace has the Leases.
	Namespace string
	// Wake makes the controller of PodChaperons reconcile one.
	Wake   func(chaperon types.NamespacedName)
	Clock  clock.PassiveClock
	Logger logr.Logger
}

// Watch shows an Observer the Leases, and wakes the PodChaperons whose delegates are to be fenced. It is a Runnable of
// a manager.
type Watch struct {
	options  Options
	observer Observer
	claims   *restriction.Restriction
	metrics  *metrics
}

// New returns a Watch, which sees nothing before Start.
func New(options Options) *Watch {
	return &Watch{options: options, claims: restriction.New(options.Client, ""), metrics: newMetrics()}
}

// NeedLeaderElection returns true: replicas that do not lead stop no delegates.
func (*Watch) NeedLeaderElection() bool { return true }

// Start watches Leases until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	if err := w.metrics.register(); err != nil {
		return fmt.Errorf("registering the metrics of silent sources: %w", err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(w.options.Clients, 0,
		informers.WithNamespace(w.options.Namespace))
	informer := factory.Coordination().V1().Leases().Informer()
	// A Lease that somebody deletes is no renewal: its source is silent until it holds the next one of that name.
	see := func(lease *coordinationv1.Lease) { w.see(ctx, lease) }
	if _, err := informer.AddEventHandler(watch.On(see, nil)); err != nil {
		return fmt.Errorf("watching Leases: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// see is called for one Lease at a time, in the order of the watch.
func (w *Watch) see(ctx context.Context, lease *coordinationv1.Lease) {
	now := w.options.Clock.Now()
	if lease.Name != v1alpha1.LeaseManager {
		w.observer.See(lease, now)
		return
	}
	w.observer.SeeOwn(lease, now)
	w.wakeSilenced(ctx)
}

// Silent returns for how long the source of a PodChaperon has surely been silent, and false if nobody can hear of it
// here: no Lease whose user may have the PodChaperon claims its cluster ID. It is zero while nobody could have been
// heard of.
func (w *Watch) Silent(ctx context.Context, chaperon *v1alpha1.PodChaperon) (time.Duration, bool, error) {
	return w.silentIn(ctx, chaperon.Labels[v1alpha1.LabelParentClusterID], chaperon.Namespace)
}

func (w *Watch) silentIn(ctx context.Context, clusterID, namespace string) (time.Duration, bool, error) {
	var failed error
	silent, known := w.observer.Silent(clusterID, func(lease string) bool {
		may, err := w.mayHave(ctx, lease, clusterID, namespace)
		failed = errors.Join(failed, err)
		return may
	})
	return silent, known, failed
}

// mayHave says whether the user of a Lease may have PodChaperons with a cluster ID in a namespace. The right to the
// Lease alone says nothing: every tenant of this cluster who may write a Source has a user with a Lease.
func (w *Watch) mayHave(ctx context.Context, lease, clusterID, namespace string) (bool, error) {
	grant, err := w.grantOf(ctx, lease)
	if grant == nil || err != nil {
		return false, err
	}
	claim, err := w.claims.ClaimOf(ctx, grant.Spec.UserName, clusterID, namespace)
	switch {
	case err != nil:
		return false, fmt.Errorf("looking whose cluster ID %q is: %w", clusterID, err)
	case claim == restriction.ClaimWhereGranted:
		return slices.Contains(grant.Status.Namespaces, namespace) ||
			slices.Contains(grant.Status.Leaving, namespace), nil
	}
	return claim == restriction.FullClaim, nil
}

// grantOf returns the SourceGrant of the user of a Lease, or nil if there is none.
func (w *Watch) grantOf(ctx context.Context, lease string) (*v1alpha1.SourceGrant, error) {
	grant := &v1alpha1.SourceGrant{}
	err := w.options.Client.Get(ctx, client.ObjectKey{Name: lease}, grant, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, fmt.Errorf("getting SourceGrant %q: %w", lease, err)
	}
	return grant, nil
}

// wakeSilenced wakes the PodChaperons whose delegates are to be fenced, and shows how silent sources are. It forgets
// those without rights. While no source is silent, it lists no PodChaperons.
func (w *Watch) wakeSilenced(ctx context.Context) {
	heard, named, silenced := map[string]time.Duration{}, map[string]time.Duration{}, false
	var failed error
	for _, s := range w.observer.silences() {
		grant, err := w.grantOf(ctx, s.lease)
		failed = errors.Join(failed, err)
		if grant == nil && err == nil {
			w.observer.Forget(s.lease)
		}
		if grant == nil || grant.Status.ClusterID != "" && grant.Status.ClusterID != s.clusterID {
			continue
		}
		shown := heard
		if grant.Status.Withheld != nil { // Administrators name the ID. What others say of it hides nothing.
			shown = named
		}
		if least, known := shown[s.clusterID]; !known || s.silent < least {
			shown[s.clusterID] = s.silent
		}
		silenced = silenced || s.silent >= timeouts.FenceLeast
	}
	maps.Copy(heard, named)
	w.metrics.set(heard)
	if silenced {
		failed = errors.Join(failed, w.wakeDue(ctx))
	}
	if failed != nil && ctx.Err() == nil {
		w.options.Logger.Error(failed, "Looking for delegates of silent sources failed")
	}
}

// whose says of which source, and in which namespace, PodChaperons are. The answer who is silent is the same for all.
type whose struct{ clusterID, namespace string }

// wakeDue wakes the PodChaperons whose sources have been silent for as long as they ask for. It lists all at once: a
// tenant can have a user claim any number of cluster IDs.
func (w *Watch) wakeDue(ctx context.Context) error {
	list := &v1alpha1.PodChaperonList{}
	if err := w.options.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	var failed error
	silences := map[whose]time.Duration{}
	for i := range list.Items {
		c := &list.Items[i]
		if !chaperon.ToBeFenced(c, timeouts.FenceMost) {
			continue
		}
		key := whose{c.Labels[v1alpha1.LabelParentClusterID], c.Namespace}
		silent, known := silences[key]
		if !known {
			var err error
			if silent, _, err = w.silentIn(ctx, key.clusterID, key.namespace); err != nil {
				failed, silent = errors.Join(failed, err), 0
			}
			silences[key] = silent
		}
		if chaperon.ToBeFenced(c, silent) {
			w.options.Wake(client.ObjectKeyFromObject(c))
		}
	}
	return failed
}
