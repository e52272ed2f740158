package capacity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// watch keeps the account up to date until ctx ends. It returns when the account is complete.
func (p *Publisher) watch(ctx context.Context) error {
	handlers := map[client.Object]toolscache.ResourceEventHandler{
		&corev1.Node{}: handler[*corev1.Node]{
			set:    func(node *corev1.Node) { p.notify(p.account.setNode(node)) },
			remove: func(key types.NamespacedName) { p.notify(p.account.removeNode(key.Name)) },
		},
		&corev1.Pod{}: handler[*corev1.Pod]{
			set:    func(pod *corev1.Pod) { p.notify(p.account.setPod(pod)) },
			remove: func(key types.NamespacedName) { p.notify(p.account.removePod(key)) },
		},
		// If anybody changes or deletes the ClusterSummary, it is written again.
		&v1alpha1.ClusterSummary{}: handler[*v1alpha1.ClusterSummary]{
			set:    func(*v1alpha1.ClusterSummary) { p.notify(true) },
			remove: func(types.NamespacedName) { p.notify(true) },
		},
	}
	var synced []toolscache.InformerSynced
	for object, handler := range handlers {
		informer, err := p.options.Cache.GetInformer(ctx, object)
		if err != nil {
			return fmt.Errorf("getting the informer of %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	toolscache.WaitForCacheSync(ctx.Done(), synced...)
	p.account.orderDelegates() // The cache has no order.
	return nil
}

// handler handles additions like updates.
type handler[T client.Object] struct {
	set    func(T)
	remove func(types.NamespacedName)
}

// OnAdd implements cache.ResourceEventHandler.
func (h handler[T]) OnAdd(object any, _ bool) { h.OnUpdate(nil, object) }

// OnUpdate implements cache.ResourceEventHandler.
func (h handler[T]) OnUpdate(_, object any) {
	if object, ok := object.(T); ok {
		h.set(object)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h handler[T]) OnDelete(object any) {
	key, err := toolscache.DeletionHandlingObjectToName(object)
	if err == nil {
		h.remove(key.AsNamespacedName())
	}
}
