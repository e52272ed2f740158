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

// findUsed writes into a status which of its namespaces have PodChaperons of the source.
func (p *Publisher) findUsed(ctx context.Context, status *v1alpha1.SourceGrantStatus) error {
	selected := client.MatchingLabels{}
	if status.ClusterID != "" {
		selected[v1alpha1.LabelParentClusterID] = status.ClusterID
	}
	list := &v1alpha1.PodChaperonList{}
	if err := p.options.Client.List(ctx, list, selected, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing PodChaperons: %w", err)
	}
	granted := sets.New(slices.Concat(status.Namespaces, status.Leaving)...)
	used := sets.New[string]()
	for i := range list.Items {
		if namespace := list.Items[i].Namespace; granted.Has(namespace) {
			used.Insert(namespace)
		}
	}
	status.Used = nil
	if used.Len() > 0 {
		status.Used = sets.List(used)
	}
	return nil
}

// enqueueUse enqueues the SourceGrants of those who may act in the namespace of a PodChaperon that comes or goes: soon
// if the namespace is not published as used. Otherwise it is enough to look later, because pods come and go.
func (p *Publisher) enqueueUse() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	look := func(ctx context.Context, q queue, chaperon client.Object) {
		namespace := chaperon.GetNamespace()
		bindings := &rbacv1.RoleBindingList{}
		err := p.options.Client.List(ctx, bindings, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		if err != nil {
			log.FromContext(ctx).Error(err, "Listing RoleBindings", "namespace", namespace)
		}
		for i := range bindings.Items {
			for _, user := range bound(&bindings.Items[i]) {
				grant, delay := &v1alpha1.SourceGrant{}, publishDelay
				name := types.NamespacedName{Name: translate.SourceGrantName(user)}
				err := p.options.Client.Get(ctx, name, grant, client.UnsafeDisableDeepCopy)
				if err == nil && slices.Contains(grant.Status.Used, namespace) {
					delay = unusedDelay
				}
				q.AddAfter(reconcile.Request{NamespacedName: name}, delay)
			}
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { look(ctx, q, e.Object) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { look(ctx, q, e.Object) },
	}
}
