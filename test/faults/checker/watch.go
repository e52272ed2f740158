package checker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// lookEvery is the interval at which the checker looks at processes. A program of a test pod runs longer.
const lookEvery = 250 * time.Millisecond

// Program is the program that the test pods run.
const Program = "whoami"

// Watch notes what happens in a namespace of a cluster until the context ends, or the caller calls end, which returns
// when nothing more is noted. It returns when it knows all pods that exist. The source may be a target, too.
func (h *History) Watch(
	ctx context.Context, namespace, cluster string, source bool, config *rest.Config,
) (end func(), err error) {
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", cluster, err)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(set, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(h.handler(cluster, source)); err != nil {
		return nil, fmt.Errorf("watching %s: %w", cluster, err)
	}
	synced := []cache.InformerSynced{informer.HasSynced}
	if source {
		events := factory.Events().V1().Events().Informer()
		if _, err := events.AddEventHandler(h.fencedHandler()); err != nil {
			return nil, fmt.Errorf("watching the events of %s: %w", cluster, err)
		}
		synced = append(synced, events.HasSynced)
	}
	metadataClient, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s for metadata: %w", cluster, err)
	}
	chaperons := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, namespace, nil)
	podChaperons := chaperons.ForResource(v1alpha1.GroupVersion.WithResource("podchaperons")).Informer()
	if _, err := podChaperons.AddEventHandler(h.ofChaperons(cluster)); err != nil {
		return nil, fmt.Errorf("watching the PodChaperons of %s: %w", cluster, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	end = func() {
		cancel()
		factory.Shutdown()
		chaperons.Shutdown()
	}
	factory.Start(ctx.Done())
	chaperons.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		end()
		return nil, fmt.Errorf("reading the pods of %s: %w", cluster, context.Cause(ctx))
	}
	return end, nil
}

func (h *History) handler(cluster string, source bool) cache.ResourceEventHandlerFuncs {
	seen := func(object any) {
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		if parent := pod.Labels[v1alpha1.LabelParentUID]; parent != "" {
			h.Delegate(cluster, types.UID(parent), pod)
		} else if source {
			h.Proxy(pod)
		}
	}
	gone := func(object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		seen(object)
		pod, ok := object.(*corev1.Pod)
		if !ok {
			return
		}
		if pod.Labels[v1alpha1.LabelParentUID] != "" {
			h.DelegateGone(pod.UID)
		} else if source {
			h.ProxyGone(pod)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: seen,
		UpdateFunc: func(old, object any) {
			was, ok := old.(*corev1.Pod)
			is, same := object.(*corev1.Pod)
			if ok && same && was.UID != is.UID { // After a gap of the watch, another pod has the name.
				gone(was)
			}
			seen(object)
		},
		DeleteFunc: gone,
	}
}

// fencedHandler notes the proxies whose end the source confirms because their target must have fenced the delegate.
func (h *History) fencedHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		event, ok := object.(*eventsv1.Event)
		if ok && event.Regarding.Kind == "Pod" && event.Reason == "DelegateFenced" {
			h.Fenced(event.UID, event.Regarding.UID)
		}
	}}
}

// Look looks at the processes of a namespace's pods until the context ends.
func (h *History) Look(ctx context.Context, namespace string) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		processes, err := Processes(namespace)
		if err != nil {
			continue
		}
		running := map[types.UID]bool{}
		for uid := range processes {
			running[uid] = true
		}
		h.Running(running)
	}
}
