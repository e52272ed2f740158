package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	toolscache "k8s.io/client-go/tools/cache"
)

// sighting records when and where a pod was seen.
type sighting struct {
	asked   time.Time // when its creation was due
	running time.Time
	node    string
	retried bool // the scheduler tried it in vain at least once
}

// watch records the sightings of a measurement's pods.
type watch struct {
	changed chan struct{}

	mu         sync.Mutex // guards the rest
	pods       map[string]*sighting
	asked, ran int
	deleted    time.Time // the last deletion
}

// watch watches the benchmark's pods in the source until the returned function is called.
func (b *bench) watch(ctx context.Context) (*watch, func(), error) {
	w := &watch{changed: make(chan struct{}, 1), pods: map[string]*sighting{}}
	stop, err := b.seePods(ctx, source, podLabel, w.see)
	return w, stop, err
}

// seePods calls see with the pods of the benchmark's namespace in a cluster, and whenever one changes, until the
// returned function is called. It returns when see knows all pods that exist.
func (b *bench) seePods(ctx context.Context, cluster, selector string, see func(any)) (func(), error) {
	factory := informers.NewSharedInformerFactoryWithOptions(b.clusters[cluster].set, 0,
		informers.WithNamespace(namespace),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	return inform(ctx, factory.Core().V1().Pods().Informer(), see)
}

// inform calls see with each object of an informer, and whenever one changes, until the returned function is called.
func inform(ctx context.Context, informer toolscache.SharedIndexInformer, see func(any)) (func(), error) {
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    see,
		UpdateFunc: func(_, obj any) { see(obj) },
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	go informer.RunWithContext(ctx)
	if !toolscache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		err := fmt.Errorf("listing what to watch: %w", ctx.Err())
		stop()
		return nil, err
	}
	return stop, nil
}

// ask records that a pod is about to be created.
func (w *watch) ask(name string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pods[name] = &sighting{asked: at}
	w.asked++
}

// delete records that a pod is about to be deleted.
func (w *watch) delete() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deleted = time.Now()
}

func (w *watch) lastDeletion() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted
}

func (w *watch) see(obj any) {
	pod := obj.(*corev1.Pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.pods[pod.Name]
	if !ok {
		return
	}
	if refused(pod) {
		s.retried = true
	}
	if pod.Status.Phase != corev1.PodRunning || !s.running.IsZero() {
		return
	}
	s.running, s.node = time.Now(), pod.Spec.NodeName
	w.ran++
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// refused reports whether the scheduler has tried the pod in vain.
func refused(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c.Status == corev1.ConditionFalse && c.Reason != corev1.PodReasonSchedulingGated
		}
	}
	return false
}

// untilRunning waits until all pods have run.
func (w *watch) untilRunning(ctx context.Context) error {
	for {
		w.mu.Lock()
		ran, asked := w.ran, w.asked
		w.mu.Unlock()
		if ran == asked {
			return nil
		}
		select {
		case <-w.changed:
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d pods run: %w", ran, asked, ctx.Err())
		}
	}
}
