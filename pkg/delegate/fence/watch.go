package fence

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// Options of New. All are required.
type Options struct {
	// Client reads PodChaperons and SourceGrants, and may read them from a cache.
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
	metrics  *metrics
}

// New returns a Watch, which sees nothing before Start.
func New(options Options) *Watch { return &Watch{options: options, metrics: newMetrics()} }

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
	handler := watch.On(
		func(lease *coordinationv1.Lease) { w.see(ctx, lease) },
		func(lease *coordinationv1.Lease) { w.observer.Forget(lease.Name) },
	)
	if _, err := informer.AddEventHandler(handler); err != nil {
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

// Silent returns for how long the source with a cluster ID has surely been silent, and false if nobody can hear of it
// here: it has no Lease, or no SourceGrant with this ID. It is zero while nobody could have been heard of.
func (w *Watch) Silent(ctx context.Context, clusterID string) (time.Duration, bool, error) {
	var failed error
	silent, known := w.observer.Silent(clusterID, func(lease string) bool {
		granted, err := w.granted(ctx, lease, clusterID)
		failed = errors.Join(failed, err)
		return granted
	})
	return silent, known, failed
}

// granted says whether the user of a Lease has the right to a cluster ID.
func (w *Watch) granted(ctx context.Context, lease, clusterID string) (bool, error) {
	grant := &v1alpha1.SourceGrant{}
	err := w.options.Client.Get(ctx, client.ObjectKey{Name: lease}, grant, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("getting SourceGrant %q: %w", lease, err)
	}
	return grant.Status.ClusterID == "" || grant.Status.ClusterID == clusterID, nil
}

// wakeSilenced wakes the PodChaperons whose delegates are to be fenced, and shows how silent sources are. While no
// source is silent, it costs nothing.
func (w *Watch) wakeSilenced(ctx context.Context) {
	heard := map[string]time.Duration{}
	defer func() { w.metrics.set(heard) }()
	for clusterID := range w.observer.sourceIDs() {
		silent, known, err := w.Silent(ctx, clusterID)
		if known {
			heard[clusterID] = silent
		}
		if err == nil && silent >= timeouts.FenceLeast {
			err = w.wakeOf(ctx, clusterID, silent)
		}
		if err != nil && ctx.Err() == nil {
			w.options.Logger.Error(err, "Looking for delegates of silent sources failed", "source", clusterID)
		}
	}
}

func (w *Watch) wakeOf(ctx context.Context, clusterID string, silent time.Duration) error {
	list := &v1alpha1.PodChaperonList{}
	err := w.options.Client.List(ctx, list,
		client.MatchingLabels{v1alpha1.LabelParentClusterID: clusterID}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	for i := range list.Items {
		if chaperon.ToBeFenced(&list.Items[i], silent) {
			w.options.Wake(client.ObjectKeyFromObject(&list.Items[i]))
		}
	}
	return nil
}
