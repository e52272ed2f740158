package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const (
	timeout = 30 * time.Second
	// A person often has to solve the problem (a namespace that does not exist yet). Longer waits would annoy this
	// person.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Options of New. All are required.
type Options struct {
	// Client writes, and reads from the manager's cache, which is configured with CacheByObject.
	Client client.Client
	// APIReader reads the service accounts that this package did not create.
	APIReader client.Reader
	Clock     clock.PassiveClock
	// SourceClusterRoleName is bound in the namespaces that a source may use, SummaryViewerClusterRoleName in the whole
	// cluster. The manager must have the right to bind them.
	SourceClusterRoleName        string
	SummaryViewerClusterRoleName string
}

// Controller reconciles Sources and ClusterSources.
type Controller struct {
	options Options
}

// New returns a Controller. It does nothing until it is registered with a manager and the manager starts.
func New(options Options) *Controller { return &Controller{options: options} }

// CacheByObject restricts the manager's cache to the objects that this package created.
func CacheByObject() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: createdHere()}
	return map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}:     ours,
		&rbacv1.RoleBinding{}:        ours,
		&rbacv1.ClusterRoleBinding{}: ours,
	}
}

// Register adds the controllers to the manager. They run on the leader. The manager's scheme must have this project's
// API.
func (c *Controller) Register(mgr ctrl.Manager) error {
	if err := register(mgr, c.options, sources(), true); err != nil {
		return err
	}
	return register(mgr, c.options, clusterSources(), false)
}

func register[T client.Object](mgr ctrl.Manager, options Options, k sourceKind[T], namespaced bool) error {
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		key, ok := ownerOf(object)
		if !ok || (key.Namespace != "") != namespaced {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	byOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), k.new())
	b := ctrl.NewControllerManagedBy(mgr).
		For(k.new()).
		Watches(&rbacv1.ClusterRoleBinding{}, byName).
		Watches(&corev1.ServiceAccount{}, byOwner).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if namespaced {
		b = b.Watches(&rbacv1.RoleBinding{}, byName)
	}
	if err := b.Complete(&reconciler[T]{options: options, kind: k}); err != nil {
		return fmt.Errorf("registering the controller of %ss: %w", k.name, err)
	}
	return nil
}

type reconciler[T client.Object] struct {
	options Options
	kind    sourceKind[T]
}

// Reconcile ensures everything that the source needs, and reports the result in the status.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source := r.kind.new()
	if err := r.options.Client.Get(ctx, request.NamespacedName, source); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("getting %s %q: %w", r.kind.name, request, err)
		}
		return reconcile.Result{}, r.deleteBinding(ctx, clusterRoleBinding(viewerName(request.NamespacedName)))
	}
	if !source.GetDeletionTimestamp().IsZero() {
		return reconcile.Result{}, nil
	}
	err := r.provide(ctx, source)
	return reconcile.Result{}, errors.Join(err, r.writeStatus(ctx, source, err))
}

func (r *reconciler[T]) provide(ctx context.Context, source T) error {
	who, owner := r.kind.identity(source), r.owner(source)
	if who.hasServiceAccount() {
		if err := r.ensureServiceAccount(ctx, who.serviceAccount, owner); err != nil {
			return err
		}
	}
	for _, b := range r.options.bindings(client.ObjectKeyFromObject(source), who, owner) {
		if err := r.ensureBinding(ctx, b); err != nil {
			return err
		}
	}
	return r.releaseServiceAccounts(ctx, source, who.serviceAccount)
}

// ensureBinding applies the binding. It first deletes a binding to another role, because a binding's role cannot
// change.
func (r *reconciler[T]) ensureBinding(ctx context.Context, b binding) error {
	err := r.options.Client.Get(ctx, client.ObjectKeyFromObject(b.object), b.object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting role binding %q: %w", b.object.GetName(), err)
	}
	if err == nil && roleRef(b.object).Name != b.role {
		if err := r.deleteBinding(ctx, b.object); err != nil {
			return err
		}
	}
	err = r.options.Client.Apply(ctx, b.desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying role binding %q: %w", b.object.GetName(), err)
	}
	return nil
}

// deleteBinding deletes a binding if this package created it. The cache has no others.
func (r *reconciler[T]) deleteBinding(ctx context.Context, b client.Object) error {
	err := r.options.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, ours := b.GetLabels()[labelSource]; !ours {
		return nil
	}
	uid := b.GetUID()
	if err := r.options.Client.Delete(ctx, b, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting role binding %q: %w", b.GetName(), err)
	}
	return nil
}

func createdHere() labels.Selector {
	requirement, err := labels.NewRequirement(labelSource, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // This never happens: a test checks the key, which is constant.
	}
	return labels.NewSelector().Add(*requirement)
}
