package source

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

const (
	timeout = 30 * time.Second
	// A person often has to solve the problem (a namespace that does not exist yet). Longer waits would annoy this
	// person.
	firstRetry, lastRetry = time.Second, time.Minute
)

// Options of New. All are required, except where they say otherwise.
type Options struct {
	// Client writes, and reads from the manager's cache, which is configured with CacheByObject.
	Client client.Client
	// APIReader reads the service accounts that this package did not create.
	APIReader client.Reader
	Clock     clock.PassiveClock
	Recorder  events.EventRecorder
	// SourceClusterRoleName is bound in the namespaces that a source may use, and LeavingClusterRoleName in those that
	// a ClusterSource no longer may use. SummaryViewerClusterRoleName is bound in the whole cluster. The manager must
	// have the right to bind them.
	SourceClusterRoleName        string
	LeavingClusterRoleName       string
	SummaryViewerClusterRoleName string
	// EarlierClusterRoleName is bound in the whole cluster to sources of earlier versions, at an upgrade.
	EarlierClusterRoleName string
	// ReleaseNamespace is the namespace of the manager, which ClusterSources do not get by default.
	ReleaseNamespace string
	// LeasesNamespace has the Leases of sources. If empty, there are none.
	LeasesNamespace string
	// EnforceDefaultExclusions refuses namespaces that ClusterSources do not get by default, even if they used them
	// when an earlier version let them.
	EnforceDefaultExclusions bool
	// SecretNamespaces are the namespaces in which the manager may list Secrets. If empty, it may in all.
	SecretNamespaces []string
}

// Controller reconciles Sources and ClusterSources.
type Controller struct {
	options Options
}

// New returns a Controller. It does nothing until it is registered with a manager and the manager starts.
func New(options Options) *Controller { return &Controller{options: options} }

// CacheByObject restricts the manager's cache to the objects that this package created.
func CacheByObject() map[client.Object]cache.ByObject {
	ours := cache.ByObject{Label: grants.CreatedHere()}
	return map[client.Object]cache.ByObject{
		&corev1.ServiceAccount{}:     ours,
		&rbacv1.RoleBinding{}:        ours,
		&rbacv1.ClusterRoleBinding{}: ours,
		&rbacv1.Role{}:               ours,
		&rbacv1.ClusterRole{}:        ours,
	}
}

// Register adds the controllers to the manager. They run on the leader. The manager's scheme must have this project's
// API.
func (c *Controller) Register(ctx context.Context, mgr ctrl.Manager) error {
	options := grants.Options{
		Client:                   c.options.Client,
		APIReader:                c.options.APIReader,
		Config:                   mgr.GetConfig(),
		FullClusterRoleName:      c.options.SourceClusterRoleName,
		LeavingClusterRoleName:   c.options.LeavingClusterRoleName,
		EarlierClusterRoleName:   c.options.EarlierClusterRoleName,
		ReleaseNamespace:         c.options.ReleaseNamespace,
		LeasesNamespace:          c.options.LeasesNamespace,
		EnforceDefaultExclusions: c.options.EnforceDefaultExclusions,
		SecretNamespaces:         c.options.SecretNamespaces,
	}
	keeper, err := grants.NewKeeper(options)
	if err != nil {
		return err
	}
	if err := keeper.Register(ctx, mgr); err != nil {
		return err
	}
	publisher := grants.NewPublisher(options, keeper)
	if err := publisher.Register(ctx, mgr); err != nil {
		return err
	}
	ofNamespaces := &reconciler[*v1alpha1.Source]{options: c.options, kind: sources(), unpublished: publisher.Missing}
	if err := register(mgr, ofNamespaces, nil); err != nil {
		return err
	}
	r := &reconciler[*v1alpha1.ClusterSource]{
		options: c.options, kind: clusterSources(), keeper: keeper, unpublished: publisher.Missing,
	}
	return register(mgr, r, r.watchNamespaces)
}

// register adds the controller of a kind. It watches all that the reconciler creates.
func register[T client.Object](
	mgr ctrl.Manager, r *reconciler[T], more func(*ctrl.Builder),
) error {
	namespaced := r.keeper == nil
	byName := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		key, ok := ownerOf(object)
		if !ok || (key.Namespace != "") != namespaced {
			return nil
		}
		return []reconcile.Request{{NamespacedName: key}}
	})
	byOwner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), r.kind.new())
	b := ctrl.NewControllerManagedBy(mgr).
		For(r.kind.new()).
		Watches(&rbacv1.RoleBinding{}, byName).
		Watches(&rbacv1.ClusterRoleBinding{}, byName).
		Watches(&rbacv1.Role{}, byName).
		Watches(&rbacv1.ClusterRole{}, byName).
		Watches(&corev1.ServiceAccount{}, byOwner).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if more != nil {
		more(b)
	}
	if err := b.Complete(r); err != nil {
		return fmt.Errorf("registering the controller of %ss: %w", r.kind.name, err)
	}
	return nil
}

// watchNamespaces has ClusterSources reconciled when a namespace changes, and when the last of their objects may be
// gone from a namespace that they leave.
func (r *reconciler[T]) watchNamespaces(b *ctrl.Builder) {
	all := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		list := &v1alpha1.ClusterSourceList{}
		if err := r.options.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			log.FromContext(ctx).Error(err, "Listing ClusterSources")
		}
		var requests []reconcile.Request
		for i := range list.Items {
			requests = append(requests, requestFor(list.Items[i].Name))
		}
		return requests
	})
	ended := handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
		for _, name := range r.keeper.Concerned(e.Object.GetNamespace()) {
			q.Add(requestFor(name))
		}
	}}
	b.WatchesMetadata(&corev1.Namespace{}, all, builder.WithPredicates(labelsOrEnd())).
		Watches(&v1alpha1.PodChaperon{}, ended).
		WatchesRawSource(source.Func(func(_ context.Context, q queue) error {
			r.keeper.OnAnswer(func(names []string) {
				for _, name := range names {
					q.Add(requestFor(name))
				}
			})
			return nil
		}))
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func requestFor(clusterSource string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: clusterSource}}
}

// labelsOrEnd passes the changes of a namespace that can change rights there: of its labels, and its end.
func labelsOrEnd() predicate.Predicate {
	ended := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })
	return predicate.Or(predicate.LabelChangedPredicate{}, ended)
}

type reconciler[T client.Object] struct {
	options Options
	kind    sourceKind[T]
	keeper  *grants.Keeper // nil for Sources
	// unpublished says that no SourceGrants can be written.
	unpublished func() bool
}

// Reconcile ensures everything that the source needs, and reports the result in the status.
func (r *reconciler[T]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	object := r.kind.new()
	if err := r.options.Client.Get(ctx, request.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, fmt.Errorf("getting %s %q: %w", r.kind.name, request, err)
		}
		if r.keeper != nil {
			r.keeper.Forget(request.Name)
		}
		return reconcile.Result{}, r.objects().Delete(ctx, clusterRoleBinding(viewerName(request.NamespacedName)))
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return reconcile.Result{}, nil
	}
	outcome, err := r.provide(ctx, object)
	problem := err
	if errors.As(err, &grants.InvalidSelectorError{}) {
		err = nil // Trying again does not help.
	}
	err = errors.Join(err, r.writeStatus(ctx, object, outcome, problem))
	if err == nil && r.unpublished() {
		return reconcile.Result{RequeueAfter: lastRetry}, nil // The condition says so until somebody helps.
	}
	return reconcile.Result{}, err
}

// provide returns where a ClusterSource may act.
func (r *reconciler[T]) provide(ctx context.Context, object T) (*grants.Outcome, error) {
	who, owner := r.kind.identity(object), r.owner(object)
	if who.HasServiceAccount() {
		if err := r.ensureServiceAccount(ctx, who.ServiceAccount, owner); err != nil {
			return nil, err
		}
	}
	key := client.ObjectKeyFromObject(object)
	// The identity comes first: the admission policy must know a source before it has rights.
	for _, wanted := range r.options.rbacOf(key, who.Subjects(), r.kind.clusterID(object), owner) {
		if _, err := r.objects().Ensure(ctx, wanted); err != nil {
			return nil, err
		}
	}
	var outcome *grants.Outcome
	if s := r.kind.clusterSource(object); s != nil {
		kept, err := r.keeper.Keep(ctx, grants.ClusterSource{
			Name: s.Name, Selector: s.Spec.NamespaceSelector, ClusterID: s.Spec.ClusterID,
			Users: who.Users(), Subjects: who.Subjects(), Owner: owner,
		})
		if err != nil {
			return nil, err
		}
		outcome = &kept
	}
	return outcome, r.releaseServiceAccounts(ctx, object, who.ServiceAccount)
}

func (r *reconciler[T]) objects() grants.Objects {
	return grants.Objects{Client: r.options.Client, APIReader: r.options.APIReader}
}
