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
	// What stands in the way is often a person's to mend (a namespace that does not exist yet), so waiting longer would only annoy.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Options of New; all are required.
type Options struct {
	// Client reads from the manager's cache, configured as CacheByObject says, and writes.
	Client client.Client
	// APIReader reads the service accounts that were not made here.
	APIReader client.Reader
	Clock     clock.PassiveClock
	// SourceClusterRoleName is bound in the namespaces that a source may use, SummaryViewerClusterRoleName in the whole
	// cluster. The manager must be allowed to bind them.
	SourceClusterRoleName        string
	SummaryViewerClusterRoleName string
}

// Controller looks after Sources and ClusterSources.
type Controller struct {
	options Options
}

// New makes a Controller; it does nothing until it is registered with a manager that starts.
func New(options Options) *Controller { return &Controller{options: options} }

// CacheByObject restricts the manager's cache to what this package made.
func CacheByObject() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: madeHere()}
	return map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}:     ours,
		&rbacv1.RoleBinding{}:        ours,
		&rbacv1.ClusterRoleBinding{}: ours,
	}
}

// Register adds the controllers to the manager, to run on the leader. The manager's scheme must know this project's API.
func (c *Controller) Register(mgr ctrl.Manager) error {
	if err := register(mgr, c.options, sources(), true); err != nil {
		return err
	}
	return register(mgr, c.options, clusterSources(), false)
}

func register[T client.Object](mgr ctrl.Manager, options Options, k kind[T], namespaced bool) error {
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
	if err := b.Complete(&reconciler[T]{Options: options, kind: k}); err != nil {
		return fmt.Errorf("registering the controller of %ss: %w", k.name, err)
	}
	return nil
}

type reconciler[T client.Object] struct {
	Options

	kind kind[T]
}

// Reconcile makes what the source needs, and says in its status how that went.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	source := r.kind.new()
	if err := r.Client.Get(ctx, request.NamespacedName, source); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("getting %s %q: %w", r.kind.name, request, err)
		}
		return reconcile.Result{}, r.deleteBinding(ctx, clusterRoleBinding(viewerName(request.NamespacedName)))
	}
	if !source.GetDeletionTimestamp().IsZero() {
		return reconcile.Result{}, nil
	}
	err := r.provide(ctx, source)
	return reconcile.Result{}, errors.Join(err, r.report(ctx, source, err))
}

func (r *reconciler[T]) provide(ctx context.Context, source T) error {
	who, owner := r.kind.identity(source), r.owner(source)
	if who.hasServiceAccount() {
		if err := r.ensureServiceAccount(ctx, who.serviceAccount, owner); err != nil {
			return err
		}
	}
	for _, b := range r.bindings(client.ObjectKeyFromObject(source), who, owner) {
		if err := r.ensureBinding(ctx, b); err != nil {
			return err
		}
	}
	return r.releaseServiceAccounts(ctx, source, who.serviceAccount)
}

// ensureBinding applies the binding. One to another role is deleted first: a binding's role cannot be changed.
func (r *reconciler[T]) ensureBinding(ctx context.Context, b binding) error {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(b.object), b.object)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("getting role binding %q: %w", b.object.GetName(), err)
	}
	if err == nil && role(b.object).Name != b.role {
		if err := r.deleteBinding(ctx, b.object); err != nil {
			return err
		}
	}
	if err := r.Client.Apply(ctx, b.desired, client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying role binding %q: %w", b.object.GetName(), err)
	}
	return nil
}

// deleteBinding deletes a binding if this package made it, which is to say, if it is in the cache.
func (r *reconciler[T]) deleteBinding(ctx context.Context, b client.Object) error {
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(b), b)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if _, ours := b.GetLabels()[labelSource]; !ours {
		return nil
	}
	uid := b.GetUID()
	if err := r.Client.Delete(ctx, b, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting role binding %q: %w", b.GetName(), err)
	}
	return nil
}

func madeHere() labels.Selector {
	requirement, err := labels.NewRequirement(labelSource, selection.Exists, nil)
	if err != nil {
		return labels.Nothing() // Never: the key is a constant, which a test checks.
	}
	return labels.NewSelector().Add(*requirement)
}
