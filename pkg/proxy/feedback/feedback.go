package feedback

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	name = "feedback"

	// IndexNodeName is the field index, in the manager's cache, of proxies by the node that they are bound to.
	IndexNodeName = "spec.nodeName"

	callTimeout      = 10 * time.Second
	workersPerTarget = 10
	retryFirst       = 5 * time.Millisecond
	retryLast        = 30 * time.Second
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Options are what Feedback works with. All are required.
type Options struct {
	// Client reads pods and nodes of the source cluster from a cache, cut down by package podcache at most, and writes to it.
	Client client.Client
	// APIReader reads from the source cluster's API server.
	APIReader client.Reader
	// Clock tells how long a target's manager has had.
	Clock clock.PassiveClock
	// Recorder records events about proxies.
	Recorder events.EventRecorder
	// Logger is for what is not the reconciliation of one pod.
	Logger logr.Logger
}

// Feedback keeps proxies and delegates in step with each other. It observes an engage.Registry (Observe it before the first target
// is engaged), and is to run on the leader only.
type Feedback struct {
	Options

	// index makes the index IndexNodeName, once. It is made for the first target: we lead by then, and a replica that does not lead
	// need not watch pods.
	index func() error

	mu    sync.RWMutex // guards links
	links map[*engage.Target]link
}

// link is what leads to an engaged target's workers.
type link struct {
	queue queue
	// compare enqueues every proxy that the target has a PodChaperon for, or that is bound to its node.
	compare func() error
}

var _ engage.Observer = &Feedback{}

// New makes a Feedback, which does nothing before Register and Engaged.
func New(options Options) *Feedback {
	return &Feedback{Options: options, links: map[*engage.Target]link{}}
}

// Register adds the watch of pods to the manager.
func (f *Feedback) Register(ctx context.Context, mgr manager.Manager) error {
	f.index = engage.Once(func() error {
		return mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, IndexNodeName, nodeNameOfProxy)
	})
	return f.registerPods(mgr)
}

func nodeNameOfProxy(o client.Object) []string {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName != "" && translate.IsProxy(pod) {
		return []string{pod.Spec.NodeName}
	}
	return nil
}

// Engaged starts the target's workers, which stop with ctx, and has them compare all of its PodChaperons and all proxies
// on its node.
func (f *Feedback) Engaged(ctx context.Context, target *engage.Target) error {
	if err := f.index(); err != nil {
		return fmt.Errorf("indexing proxies by node: %w", err)
	}
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast)
	q := workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name})
	c, err := controller.NewUnmanaged(name, controller.Options{
		Reconciler:              &reconciler{Feedback: f, target: target},
		MaxConcurrentReconciles: workersPerTarget,
		SkipNameValidation:      ptr.To(true), // There is one for each target.
		RateLimiter:             limiter,
		NewQueue:                func(string, workqueue.TypedRateLimiter[reconcile.Request]) queue { return q },
		Logger:                  f.Logger.WithValues("target", target.Key),
	})
	if err != nil {
		return fmt.Errorf("making a controller: %w", err)
	}
	f.connect(ctx, target, q)
	go func() {
		if err := c.Start(ctx); err != nil {
			f.Logger.Error(err, "Feedback from a target ended", "target", target.Key)
		}
	}()
	if err := watchChaperons(ctx, target, q); err != nil {
		return err
	}
	return f.enqueueProxies(ctx, target, q)
}

// connect lets the events of pods reach the target's workers until ctx ends.
func (f *Feedback) connect(ctx context.Context, target *engage.Target, q queue) {
	compare := func() error {
		if err := enqueueParents(ctx, target, q); err != nil {
			return err
		}
		return f.enqueueProxies(ctx, target, q)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.links[target] = link{queue: q, compare: compare}
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.links, target)
	})
}

// PolicyChanged does nothing: what runs in a target stays there.
func (f *Feedback) PolicyChanged(*engage.Target) {}

// ReachabilityChanged has everything compared when the target is reachable again.
func (f *Feedback) ReachabilityChanged(target *engage.Target) {
	if !target.Reachable() {
		return
	}
	f.mu.RLock()
	l, ok := f.links[target]
	f.mu.RUnlock()
	if !ok {
		return
	}
	if err := l.compare(); err != nil {
		f.Logger.Error(err, "Proxies of a target that is reachable again are not compared", "target", target.Key)
	}
}

// route enqueues a proxy at the target of its node, or, everywhere, at all targets that may have a PodChaperon for it.
func (f *Feedback) route(proxy *corev1.Pod, everywhere bool) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for target, l := range f.links {
		if target.NodeName == proxy.Spec.NodeName || everywhere && target.Allows(proxy.Namespace) {
			l.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(proxy)})
		}
	}
}

// watchChaperons enqueues the parents of all PodChaperons, now and whenever they change.
func watchChaperons(ctx context.Context, target *engage.Target, q queue) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	informer, err := target.Cache.GetInformer(ctx, &v1alpha1.PodChaperon{})
	if err != nil {
		return fmt.Errorf("getting the informer of PodChaperons: %w", err)
	}
	enqueue := func(o any) {
		if tombstone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = tombstone.Obj
		}
		if chaperon, ok := o.(*v1alpha1.PodChaperon); ok {
			q.Add(parentOf(chaperon))
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, o any) { enqueue(o) },
		DeleteFunc: enqueue,
	}); err != nil {
		return fmt.Errorf("handling events of PodChaperons: %w", err)
	}
	return nil
}

func parentOf(chaperon *v1alpha1.PodChaperon) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{
		Namespace: chaperon.Annotations[v1alpha1.AnnotationParentNamespace],
		Name:      chaperon.Annotations[v1alpha1.AnnotationParentName],
	}}
}

func enqueueParents(ctx context.Context, target *engage.Target, q queue) error {
	chaperons := &v1alpha1.PodChaperonList{}
	if err := target.Client.List(ctx, chaperons, client.UnsafeDisableDeepCopyOption(true)); err != nil {
		return fmt.Errorf("listing PodChaperons of target %q: %w", target.Key, err)
	}
	for i := range chaperons.Items {
		q.Add(parentOf(&chaperons.Items[i]))
	}
	return nil
}

func (f *Feedback) enqueueProxies(ctx context.Context, target *engage.Target, q queue) error {
	proxies := &corev1.PodList{}
	if err := f.Client.List(ctx, proxies, client.MatchingFields{IndexNodeName: target.NodeName}, client.UnsafeDisableDeepCopyOption(true)); err != nil {
		return fmt.Errorf("listing proxies on node %q: %w", target.NodeName, err)
	}
	for i := range proxies.Items {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&proxies.Items[i])})
	}
	return nil
}
