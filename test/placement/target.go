package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/capacity"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

// workers is how many PodChaperons a target's manager works on at once.
const workers = 10

// target is a target cluster: its API server, its scheduler, its kubelets, and the product's manager.
type target struct {
	*store

	kube    *kube
	holds   *holds
	engaged *engage.Target
	// summaries are those that the source's cache shows.
	summaries *informer
}

// newTarget starts a target cluster, which runs until ctx ends.
func newTarget(ctx context.Context, c *cluster, seed uint64) (*target, error) {
	s := newStore(c.name)
	if err := createNodes(s, c); err != nil {
		return nil, err
	}
	k, err := newKube(ctx, s, seed)
	if err != nil {
		return nil, err
	}
	startKubelets(s)
	t := &target{store: s, kube: k, holds: holdBack(ctx, s, c)}
	if c.grows != nil {
		go (&autoscaler{kube: k, groups: []*nodeGroup{c.group()}}).run(ctx)
	}
	t.startManager(ctx)
	t.connect(ctx)
	return t, nil
}

// startManager starts the controllers of the target's manager that placement depends on.
func (t *target) startManager(ctx context.Context) {
	chaperons := newInformer(ctx, t.store, &v1alpha1.PodChaperon{})
	pods := newInformer(ctx, t.store, &corev1.Pod{})
	nodes := newInformer(ctx, t.store, &corev1.Node{})
	summaries := newInformer(ctx, t.store, &v1alpha1.ClusterSummary{})
	manager := &api{store: t.store, caches: caches{all: []*informer{chaperons, pods, nodes}}}
	reconciler := chaperon.New(manager, live{store: t.store}, clock.RealClock{}, silent{}, "")
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](5*time.Millisecond, 30*time.Second))
	context.AfterFunc(ctx, queue.ShutDown)
	enqueue := func(o client.Object) { queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)}) }
	_, _ = chaperons.AddEventHandler(watch.OnAny(func(c *v1alpha1.PodChaperon) { enqueue(c) }))
	_, _ = pods.AddEventHandler(watch.OnAny(func(pod *corev1.Pod) { enqueue(pod) })) // It has its PodChaperon's name.
	for range workers {
		go work(ctx, queue, reconciler)
	}
	publisher := capacity.New(capacity.Options{
		Client: &api{store: t.store}, Cache: caches{all: []*informer{nodes, pods, summaries}},
		Version: fixedVersion{}, Clock: clock.RealClock{}, ClusterID: t.name,
	})
	go func() { _ = publisher.Start(ctx) }()
}

// work reconciles until the queue is shut down.
func work(
	ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request], r reconcile.Reconciler,
) {
	for {
		request, down := queue.Get()
		if down {
			return
		}
		result, err := r.Reconcile(ctx, request)
		switch {
		case err != nil:
			queue.AddRateLimited(request)
		case result.RequeueAfter > 0:
			queue.Forget(request)
			queue.AddAfter(request, result.RequeueAfter)
		default:
			queue.Forget(request)
		}
		queue.Done(request)
	}
}

// connect makes what the source knows of the target.
func (t *target) connect(ctx context.Context) {
	chaperons := newInformer(ctx, t.store, &v1alpha1.PodChaperon{})
	t.summaries = newInformer(ctx, t.store, &v1alpha1.ClusterSummary{})
	caches := caches{all: []*informer{chaperons, t.summaries}}
	key := types.NamespacedName{Name: t.name}
	t.engaged = &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key), ClusterID: t.name,
		Client: &api{store: t.store, caches: caches}, APIReader: live{store: t.store}, Cache: caches,
	}
}

// startDelay is how long a kubelet takes to start a pod.
const startDelay = time.Second

// runsFor is the annotation of pods that end by themselves, with the time that they take.
const runsFor = "placement/runs-for"

// startKubelets starts the pods that get a node, and ends those that end by themselves.
func startKubelets(s *store) {
	s.watch(func(c change) {
		before, existed := c.before.(*corev1.Pod)
		pod, exists := c.after.(*corev1.Pod)
		if !existed || !exists || before.Spec.NodeName != "" || pod.Spec.NodeName == "" {
			return
		}
		set := func(phase corev1.PodPhase) func() {
			return func() { setPhase(s, pod, phase) }
		}
		time.AfterFunc(startDelay, set(corev1.PodRunning))
		if d, err := time.ParseDuration(pod.Annotations[runsFor]); err == nil {
			time.AfterFunc(startDelay+d, set(corev1.PodSucceeded))
		}
	})
}

func setPhase(s *store, pod *corev1.Pod, phase corev1.PodPhase) {
	_, _ = s.update(refOf(pod), func(o client.Object) bool {
		now, ok := o.(*corev1.Pod)
		if !ok || now.UID != pod.UID {
			return false
		}
		now.Status.Phase = phase
		if at := metav1.Now().Rfc3339Copy(); phase == corev1.PodRunning { // as API servers keep it
			now.Status.StartTime = &at
		}
		return true
	})
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// fixedVersion is the version of all clusters.
type fixedVersion struct{}

func (fixedVersion) ServerVersion() (*version.Info, error) {
	return &version.Info{GitVersion: "v1.37.1"}, nil
}

func (f fixedVersion) ServerVersionWithContext(context.Context) (*version.Info, error) {
	return f.ServerVersion()
}
