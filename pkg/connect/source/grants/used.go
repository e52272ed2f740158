package grants

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// findUsed writes into a status which of its namespaces have PodChaperons of the source. If all is set, it also writes
// which others have.
func (p *Publisher) findUsed(ctx context.Context, status *v1alpha1.SourceGrantStatus, all bool) error {
	selected := client.MatchingLabels{}
	if status.ClusterID != "" {
		selected[v1alpha1.LabelParentClusterID] = status.ClusterID
	}
	list := &v1alpha1.PodChaperonList{}
	if err := p.options.Client.List(ctx, list, selected, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	used := sets.New[string]()
	for i := range list.Items {
		used.Insert(list.Items[i].Namespace)
	}
	status.Used = granted(status, used)
	if all {
		withheld := sets.List(used.Delete(status.Used...))
		status.Withheld = &v1alpha1.WithheldNamespaces{Namespaces: withheld}
	}
	return nil
}

// findCopied writes into a status which of its namespaces have copies that the user may read. What is there stays until
// all copies are listed.
func (p *Publisher) findCopied(user string, status *v1alpha1.SourceGrantStatus) {
	if p.copies.isListed() {
		status.Copied = granted(status, p.copies.namespacesOf(user))
	}
}

// granted returns those of the namespaces in which the source may act, sorted.
func granted(status *v1alpha1.SourceGrantStatus, namespaces sets.Set[string]) []string {
	found := namespaces.Intersection(sets.New(slices.Concat(status.Namespaces, status.Leaving)...))
	if found.Len() == 0 {
		return nil
	}
	return sets.List(found)
}

// enqueueCopied enqueues the SourceGrant of the user whose copy comes or goes, if it may change what is published.
func (p *Publisher) enqueueCopied(ctx context.Context, q queue) error {
	copied := func(s *v1alpha1.SourceGrantStatus) []string { return s.Copied }
	p.copies.onChange(func(c change) {
		if c.user == "" {
			p.enqueueAll(ctx, q)
			return
		}
		published := p.publishes(ctx, c.user, copied, c.namespace)
		if name := requestOf(c.user); !published {
			q.AddAfter(name, publishDelay)
		} else if c.gone {
			q.AddAfter(name, unusedDelay)
		}
	})
	return nil
}

// enqueueAll enqueues all SourceGrants.
func (p *Publisher) enqueueAll(ctx context.Context, q queue) {
	list := &v1alpha1.SourceGrantList{}
	if err := p.options.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing SourceGrants")
	}
	for i := range list.Items {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// requestOf names the SourceGrant of a user.
func requestOf(user string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: translate.SourceGrantName(user)}}
}

// publishes says whether a list in the status of a user's SourceGrant has a namespace.
func (p *Publisher) publishes(
	ctx context.Context, user string, list func(*v1alpha1.SourceGrantStatus) []string, namespace string,
) bool {
	grant := &v1alpha1.SourceGrant{}
	err := p.options.Client.Get(ctx, requestOf(user).NamespacedName, grant, client.UnsafeDisableDeepCopy)
	return err == nil && slices.Contains(list(&grant.Status), namespace)
}

// enqueueUse enqueues the SourceGrants of those who may act in the namespace of a PodChaperon that comes or goes: soon
// if the namespace is not published as used. Otherwise it is enough to look later, because pods come and go.
func (p *Publisher) enqueueUse() handler.EventHandler {
	used := func(s *v1alpha1.SourceGrantStatus) []string { return s.Used }
	look := func(ctx context.Context, q queue, chaperon client.Object) {
		namespace := chaperon.GetNamespace()
		p.enqueueWithheld(ctx, q, namespace, chaperon.GetLabels()[v1alpha1.LabelParentClusterID])
		bindings := &rbacv1.RoleBindingList{}
		err := p.options.Client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "Listing RoleBindings", "namespace", namespace)
		}
		for i := range bindings.Items {
			for _, user := range bound(&bindings.Items[i]) {
				delay := publishDelay
				if p.publishes(ctx, user, used, namespace) {
					delay = unusedDelay
				}
				q.AddAfter(requestOf(user), delay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { look(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { look(ctx, q, e.Object) },
	}
}

// enqueueWithheld enqueues the SourceGrants of a cluster ID that give no rights in a namespace.
func (p *Publisher) enqueueWithheld(ctx context.Context, q queue, namespace, clusterID string) {
	list := &v1alpha1.SourceGrantList{}
	if err := p.options.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "Listing SourceGrants")
	}
	for i := range list.Items {
		s := &list.Items[i].Status
		if s.Withheld != nil && s.ClusterID == clusterID && granted(s, sets.New(namespace)) == nil {
			q.AddAfter(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])}, publishDelay)
		}
	}
}
