package capacity

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// watch keeps the account up to date until ctx ends. It returns when the account is complete.
func (p *Publisher) watch(ctx context.Context) error {
	handlers := map[client.Object]toolscache.ResourceEventHandler{
		&corev1.Node{}: watch.On(
			func(node *corev1.Node) { p.notify(p.account.setNode(node)) },
			func(node *corev1.Node) { p.notify(p.account.removeNode(node.Name)) },
		),
		&corev1.Pod{}: watch.On(
			func(pod *corev1.Pod) { p.notify(p.account.setPod(pod)) },
			func(pod *corev1.Pod) { p.notify(p.account.removePod(client.ObjectKeyFromObject(pod))) },
		),
		// If anybody changes or deletes the ClusterSummary, it is written again.
		&v1alpha1.ClusterSummary{}: watch.OnAny(func(*v1alpha1.ClusterSummary) { p.notify(true) }),
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
	p.watchDevices(ctx)
	return nil
}

// watchDevices also keeps the account's DeviceClasses up to date, if the API server has such a kind. It returns when
// they are known, or cannot be read in time: then a summary goes without them.
func (p *Publisher) watchDevices(ctx context.Context) {
	if p.devices {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	informer, err := p.options.Cache.GetInformer(ctx, &resourcev1.DeviceClass{}, cache.BlockUntilSynced(false))
	switch {
	case meta.IsNoMatchError(err):
		return // Kubernetes has it since 1.34.
	case err != nil:
		log.FromContext(ctx).Error(err, "Extended resources of DeviceClasses are not published")
		return
	}
	registration, err := informer.AddEventHandler(watch.On(
		func(class *resourcev1.DeviceClass) { p.notify(p.account.setDeviceClass(class)) },
		func(class *resourcev1.DeviceClass) { p.notify(p.account.removeDeviceClass(class.Name)) },
	))
	if err != nil {
		log.FromContext(ctx).Error(err, "Extended resources of DeviceClasses are not published")
		return
	}
	p.devices = true
	toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced)
}
