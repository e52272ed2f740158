package garbagecollection

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/needs"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

const (
	controllerName = "copies" // in metrics

	// workers is small, because nothing waits for a deletion.
	workers = 2
	// deadline bounds the requests of a reconciliation.
	deadline              = 10 * time.Second
	firstRetry, lastRetry = time.Second, time.Minute
)

// Options of New. All are required except Grace and SecretNamespaces.
type Options struct {
	// Config is for requests that watch and delete copies.
	Config *rest.Config
	// Cache holds the PodChaperons.
	Cache cache.Cache
	Clock clock.PassiveClock
	// Grace is how long a copy stays when nobody needs it any more. The default is two minutes.
	Grace time.Duration
	// SecretNamespaces are the namespaces whose Secrets may be watched and deleted: all, if it is empty or holds "*".
	SecretNamespaces []string
}

// Remover deletes the copies that nobody needs.
type Remover struct {
	options Options
	client  metadata.Interface
	typed   kubernetes.Interface // for Ingresses
	uses    *useCounter
	stores  map[copyKind][]toolscache.Indexer // one per watched namespace; complete before the first Reconcile

	mu   sync.Mutex // guards seen
	seen map[copyKey]sighting
}

// copyKey identifies a copy.
type copyKey struct {
	kind copyKind
	name types.NamespacedName
}

// New returns a Remover. It does nothing until it is registered with a manager and the manager starts.
func New(options Options) (*Remover, error) {
	if options.Grace == 0 {
		options.Grace = timeouts.UnusedCopies
	}
	if len(options.SecretNamespaces) == 0 || slices.Contains(options.SecretNamespaces, "*") {
		options.SecretNamespaces = []string{metav1.NamespaceAll}
	}
	c, err := metadata.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("making a metadata client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(options.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Remover{
		options: options,
		client:  c,
		typed:   typed,
		uses:    newUseCounter(),
		stores:  map[copyKind][]toolscache.Indexer{},
		seen:    map[copyKey]sighting{},
	}, nil
}

// Register adds the controller to the manager. It runs on the leader; other replicas do not watch for it.
func (r *Remover) Register(mgr manager.Manager) error {
	c, err := controller.NewTyped(controllerName, mgr, controller.TypedOptions[copyKey]{
		Reconciler:              r,
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   deadline,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[copyKey](firstRetry, lastRetry),
	})
	if err != nil {
		return fmt.Errorf("building controller %q: %w", controllerName, err)
	}
	if err := c.Watch(source.TypedFunc[copyKey](r.watchObjects)); err != nil {
		return fmt.Errorf("adding the watches of controller %q: %w", controllerName, err)
	}
	return nil
}

// Reconcile deletes a copy that nobody has needed for the grace time, and at once an EndpointSlice that lost its
// Service.
func (r *Remover) Reconcile(ctx context.Context, k copyKey) (reconcile.Result, error) {
	object := r.cachedCopy(k)
	if object == nil {
		r.forget(k)
		return reconcile.Result{}, nil
	}
	switch lost, err := r.lostService(ctx, k, object); {
	case err != nil:
		return reconcile.Result{}, err
	case lost:
		return reconcile.Result{}, r.deleteLost(ctx, k.kind, object)
	}
	d := decideCopy(object, r.needed(k, object), r.lastSeen(k), r.options.Clock.Now(), r.options.Grace)
	r.remember(k, d.seen)
	if d.remove {
		return r.deleteUnused(ctx, k, object)
	}
	return reconcile.Result{RequeueAfter: d.wait}, nil
}

// cachedCopy returns the copy from the cache, or nil if there is none.
func (r *Remover) cachedCopy(k copyKey) *metav1.PartialObjectMetadata {
	for _, store := range r.stores[k.kind] {
		found, exists, err := store.GetByKey(k.name.String())
		if object, ok := found.(*metav1.PartialObjectMetadata); ok && exists && err == nil {
			return object
		}
	}
	return nil
}

// needed says whether a copy stays. A ServiceAccount to which somebody in this cluster added something is worth
// keeping: the source can make the account again, and not the additions.
func (r *Remover) needed(k copyKey, object *metav1.PartialObjectMetadata) bool {
	if k.kind == serviceAccounts() && object.Annotations[annotationAdditions] == "true" {
		return true
	}
	needing := objectUse{source: object.Labels[v1alpha1.LabelParentClusterID], namespace: k.name.Namespace}
	if k.kind.referred {
		needing.resource, needing.name = k.kind.Resource, k.name.Name
	} else if isGlobal(object) {
		return true
	}
	return r.uses.inUse(needing)
}

// deleteUnused deletes the copy as the cache has it. If it has changed or is gone, its event follows. A Secret that an
// Ingress names by now has its grace time again.
func (r *Remover) deleteUnused(
	ctx context.Context, k copyKey, object *metav1.PartialObjectMetadata,
) (reconcile.Result, error) {
	if k.kind.Resource == string(needs.Secrets) {
		if named, err := r.namedNow(ctx, object); named || err != nil {
			r.forget(k)
			return reconcile.Result{RequeueAfter: r.options.Grace}, err
		}
	}
	exactly := metav1.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	err := r.deleteCopy(ctx, k.kind, object, exactly)
	if apierrors.IsConflict(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// namedNow says whether the copy of an Ingress names a Secret, as the API server has it. The watch of Ingresses may
// lag, and a source that has made an Ingress does not look for its Secrets again.
func (r *Remover) namedNow(ctx context.Context, secret *metav1.PartialObjectMetadata) (bool, error) {
	ofSource := labels.Set{v1alpha1.LabelParentClusterID: secret.Labels[v1alpha1.LabelParentClusterID]}
	list, err := r.typed.NetworkingV1().Ingresses(secret.Namespace).List(
		ctx, metav1.ListOptions{LabelSelector: ofSource.String()})
	if err != nil {
		return false, fmt.Errorf("looking for Ingresses that name a Secret: %w", err)
	}
	return slices.ContainsFunc(list.Items, func(ingress networkingv1.Ingress) bool {
		return slices.ContainsFunc(ingress.Spec.TLS, func(tls networkingv1.IngressTLS) bool {
			return tls.SecretName == secret.Name
		})
	}), nil
}

// deleteCopy deletes the copy, if it meets the preconditions. A copy that is gone is no error.
func (r *Remover) deleteCopy(
	ctx context.Context, kind copyKind, object *metav1.PartialObjectMetadata, only metav1.Preconditions,
) error {
	copies := r.client.Resource(kind.GroupVersionResource).Namespace(object.Namespace)
	err := copies.Delete(ctx, object.Name, metav1.DeleteOptions{Preconditions: &only})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting a copy that nobody needs: %w", err)
	}
	log.FromContext(ctx).Info("Deleted a copy that nobody needs any more",
		"resource", kind.Resource, "namespace", object.Namespace, "name", object.Name,
		"sourceClusterID", object.Labels[v1alpha1.LabelParentClusterID])
	return nil
}

func (r *Remover) lastSeen(k copyKey) *sighting {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before, ok := r.seen[k]; ok {
		return &before
	}
	return nil
}

func (r *Remover) remember(k copyKey, seen *sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if seen == nil {
		delete(r.seen, k)
		return
	}
	r.seen[k] = *seen
}

func (r *Remover) forget(k copyKey) { r.remember(k, nil) }
