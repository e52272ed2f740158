package grants

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// publishDelay gathers changes of RoleBindings, because each write of a SourceGrant has all namespaces.
	publishDelay   = 500 * time.Millisecond
	publishTimeout = 30 * time.Second
	// After lastRetry at most, a source has its Lease again whose namespace was deleted and made again.
	firstRetry, lastRetry = 5 * time.Millisecond, 30 * time.Second
	// unusedDelay is how long a namespace may be published as used after the last PodChaperon there is gone.
	unusedDelay = time.Minute

	// indexUser finds the RoleBindings of a user.
	indexUser = "user"
	// readerPrefix begins the names of the role and the binding with which a user reads its SourceGrant.
	readerPrefix = "multicluster-"

	// kindRetry is how often a missing kind is looked for.
	kindRetry = 10 * time.Second
	// MissingKind says what is missing, and what to do.
	MissingKind = "the custom resource definition sourcegrants.multicluster.admiralty.io is missing, so sources do " +
		"not learn where they may act; helm upgrade does not apply definitions: run kubectl apply --server-side " +
		"--force-conflicts with the folder crds of the chart"
)

// Publisher writes the SourceGrants: one for each user of Sources and ClusterSources. It reads the rights from the
// RoleBindings, so that it publishes what is so.
type Publisher struct {
	options Options
	objects Objects
	copies  *copies
	missing atomic.Bool
}

// NewPublisher returns a Publisher. It learns of copies from the Keeper.
func NewPublisher(options Options, keeper *Keeper) *Publisher {
	return &Publisher{
		options: options, objects: Objects{Client: options.Client, APIReader: options.APIReader},
		copies: keeper.copies[0],
	}
}

// Register adds the controller to the manager. It starts once the API server has the kind SourceGrant: `helm upgrade`
// applies no custom resource definitions, and nothing else of the manager waits for this one.
func (p *Publisher) Register(ctx context.Context, mgr ctrl.Manager) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &rbacv1.RoleBinding{}, indexUser, bound)
	if err != nil {
		return fmt.Errorf("indexing role bindings by user: %w", err)
	}
	p.missing.Store(p.lacksKind(mgr))
	if !p.missing.Load() {
		return p.addController(mgr)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		said := false // An API server that has just begun may lack the kind for a moment.
		err := wait.PollUntilContextCancel(ctx, kindRetry, true, func(context.Context) (bool, error) {
			lacks := p.lacksKind(mgr)
			if lacks && !said {
				mgr.GetLogger().Error(nil, MissingKind)
				said = true
			}
			return !lacks, nil
		})
		if err != nil {
			return nil //nolint:nilerr // The manager stops.
		}
		p.missing.Store(false)
		return p.addController(mgr)
	}))
}

// Missing says whether nothing is published, because the API server lacks the kind SourceGrant.
func (p *Publisher) Missing() bool { return p.missing.Load() }

func (p *Publisher) lacksKind(mgr ctrl.Manager) bool {
	_, err := mgr.GetRESTMapper().RESTMapping(v1alpha1.GroupVersion.WithKind("SourceGrant").GroupKind())
	return meta.IsNoMatchError(err)
}

func (p *Publisher) addController(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1alpha1.SourceGrant{}).
		Watches(&rbacv1.RoleBinding{}, enqueue(publishDelay, bound)).
		Watches(&v1alpha1.PodChaperon{}, p.enqueueUse()).
		WatchesRawSource(source.Func(p.enqueueCopied)).
		Owns(&rbacv1.ClusterRole{}).
		Owns(&rbacv1.ClusterRoleBinding{}).
		Owns(&rbacv1.Role{}).
		Watches(&v1alpha1.Source{}, enqueue(0, func(o client.Object) []string {
			if s, ok := o.(*v1alpha1.Source); ok {
				return OfSource(s).Users()
			}
			return nil
		})).
		Watches(&v1alpha1.ClusterSource{}, enqueue(0, func(o client.Object) []string {
			if s, ok := o.(*v1alpha1.ClusterSource); ok {
				return OfClusterSource(s).Users()
			}
			return nil
		})).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(p)
	if err != nil {
		return fmt.Errorf("registering the controller of SourceGrants: %w", err)
	}
	return nil
}

// bound returns the users of a RoleBinding.
func bound(o client.Object) []string {
	if b, ok := o.(*rbacv1.RoleBinding); ok {
		return usersOf(b.Subjects)
	}
	return nil
}

// enqueue returns a handler that enqueues the SourceGrants of users, before and after each change.
func enqueue(delay time.Duration, users func(client.Object) []string) handler.EventHandler {
	add := func(q queue, objects ...client.Object) {
		for _, o := range objects {
			for _, user := range users(o) {
				q.AddAfter(requestOf(user), delay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(q, e.Object) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(q, e.ObjectOld, e.ObjectNew) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(q, e.Object) },
	}
}

// Reconcile writes the SourceGrant of a user, and gives the user the right to read it. Without a source, it deletes the
// SourceGrant.
func (p *Publisher) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	grant := &v1alpha1.SourceGrant{}
	err := p.options.Client.Get(ctx, request.NamespacedName, grant)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("getting SourceGrant %q: %w", request.Name, err)
	}
	exists := err == nil
	whose, err := p.sourcesOf(ctx, p.options.Client, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case whose == nil && exists:
		return reconcile.Result{}, p.deleteUnused(ctx, grant)
	case whose == nil:
		return reconcile.Result{}, nil
	case !exists:
		grant.Name, grant.Spec.UserName = request.Name, whose.user
		err := p.options.Client.Create(ctx, grant, client.FieldOwner(v1alpha1.FieldOwner))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return reconcile.Result{}, fmt.Errorf("creating SourceGrant %q: %w", request.Name, err)
		}
		return reconcile.Result{}, nil // The event of its creation goes on.
	}
	if err := p.letRead(ctx, grant, whose.subject); err != nil {
		return reconcile.Result{}, err
	}
	lease, err := p.giveLease(ctx, grant, whose)
	if err != nil { // The namespace of Leases may be gone. The source notices that, and still learns of its namespaces.
		lease = grant.Status.Lease
	}
	if err := errors.Join(err, p.publish(ctx, grant, whose, lease)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: leaseInterval}, nil
}

// deleteUnused deletes a SourceGrant that no source has, as the API server says. The cache may lack a new source.
func (p *Publisher) deleteUnused(ctx context.Context, grant *v1alpha1.SourceGrant) error {
	whose, err := p.sourcesOf(ctx, p.options.APIReader, grant.Name)
	if err != nil || whose != nil { // The event of the source goes on.
		return err
	}
	err = p.options.Client.Delete(ctx, grant, client.Preconditions{UID: &grant.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting SourceGrant %q: %w", grant.Name, err)
	}
	return nil
}

// owner is the user of a SourceGrant.
type owner struct {
	user           string
	subject        rbacv1.Subject
	clusterID      string
	administrators bool     // the cluster ID is that of a ClusterSource, which tenants cannot write
	clusterSources []string // their names
}

// sourcesOf returns the user of a SourceGrant, and nil if no source has this user, as a reader says.
func (p *Publisher) sourcesOf(ctx context.Context, from client.Reader, name string) (*owner, error) {
	clusterSources, sources := &v1alpha1.ClusterSourceList{}, &v1alpha1.SourceList{}
	for _, list := range []client.ObjectList{clusterSources, sources} {
		if err := from.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing sources: %w", err)
		}
	}
	found := &owner{}
	var ofCluster, ofNamespaces []string
	for i := range clusterSources.Items {
		s := &clusterSources.Items[i]
		if found.is(OfClusterSource(s), name) {
			ofCluster = append(ofCluster, s.Spec.ClusterID)
			found.clusterSources = append(found.clusterSources, s.Name)
		}
	}
	for i := range sources.Items {
		if s := &sources.Items[i]; found.is(OfSource(s), name) {
			ofNamespaces = append(ofNamespaces, s.Spec.ClusterID)
		}
	}
	if found.user == "" {
		return nil, nil //nolint:nilnil // documented
	}
	found.clusterID, found.administrators = clusterIDOf(ofCluster, ofNamespaces)
	return found, nil
}

// is reports whether a source has a user whose SourceGrant has the name, and notes the user.
func (o *owner) is(i Identity, name string) (is bool) {
	for _, s := range i.Subjects() {
		if user := usersOf([]rbacv1.Subject{s})[0]; translate.SourceGrantName(user) == name {
			o.user, o.subject, is = user, s, true
		}
	}
	return is
}

// clusterIDOf returns the cluster ID of a user, and whether administrators gave it. Tenants may write Sources, and name
// any user. So their cluster IDs do not count for the user of a ClusterSource, whether it has an ID or not, and only if
// they all agree for other users. An ID that is not given differs from all others, because its source may use any.
func clusterIDOf(ofCluster, ofNamespaces []string) (id string, administrators bool) {
	if len(ofCluster) > 0 {
		id = single(slices.DeleteFunc(ofCluster, func(id string) bool { return id == "" }))
		return id, id != ""
	}
	return single(ofNamespaces), false
}

// single returns the only cluster ID, or none if there are several.
func single(ids []string) string {
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != 1 {
		return ""
	}
	return ids[0]
}

// letRead gives the user of a SourceGrant the right to read it.
func (p *Publisher) letRead(ctx context.Context, grant *v1alpha1.SourceGrant, subject rbacv1.Subject) error {
	common := owned(grant)
	if _, err := p.objects.Ensure(ctx, RoleWith(common, []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupName}, Resources: []string{"sourcegrants"}, Verbs: []string{"get", "watch"},
		ResourceNames: []string{grant.Name},
	}})); err != nil {
		return err
	}
	_, err := p.objects.Ensure(ctx, BindingTo("ClusterRole", common.Name, common, []rbacv1.Subject{subject}))
	return err
}

// owned returns the metadata of the roles and bindings of a SourceGrant.
func owned(grant *v1alpha1.SourceGrant) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: readerPrefix + grant.Name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "SourceGrant", Name: grant.Name, UID: grant.UID,
			Controller: new(true),
		}},
	}
}

// publish writes the status if it differs.
func (p *Publisher) publish(
	ctx context.Context, grant *v1alpha1.SourceGrant, whose *owner, lease *v1alpha1.LeaseReference,
) error {
	list := &rbacv1.RoleBindingList{}
	err := p.options.Client.List(ctx, list, client.MatchingFields{indexUser: whose.user}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing role bindings: %w", err)
	}
	before := grant.DeepCopy()
	grant.Status = v1alpha1.SourceGrantStatus{
		Namespaces: p.namespaces(list, p.options.FullClusterRoleName),
		ClusterID:  whose.clusterID,
		Lease:      lease,
	}
	grant.Status.Leaving = slices.DeleteFunc(p.namespaces(list, p.options.LeavingClusterRoleName),
		func(namespace string) bool { return slices.Contains(grant.Status.Namespaces, namespace) })
	if err := p.findUsed(ctx, &grant.Status, whose.administrators); err != nil {
		return err
	}
	grant.Status.Copied = before.Status.Copied
	p.findCopied(whose.user, &grant.Status)
	if equality.Semantic.DeepEqual(before.Status, grant.Status) {
		return nil
	}
	err = p.options.Client.Status().Patch(ctx, grant, client.MergeFrom(before), client.FieldOwner(v1alpha1.FieldOwner))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching the status of SourceGrant %q: %w", grant.Name, err)
	}
	return nil
}

// namespaces returns the namespaces of the bindings to a ClusterRole, sorted.
func (p *Publisher) namespaces(list *rbacv1.RoleBindingList, role string) []string {
	var namespaces []string
	for i := range list.Items {
		if list.Items[i].RoleRef.Kind == "ClusterRole" && list.Items[i].RoleRef.Name == role {
			namespaces = append(namespaces, list.Items[i].Namespace)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}
