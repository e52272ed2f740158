package feedback

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/addresses"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/wake"
)

const (
	controllerName = "feedback"

	callTimeout      = timeouts.Request
	workersPerTarget = 10
	firstRetry       = 5 * time.Millisecond
	lastRetry        = 30 * time.Second

	// readsPerSecond is how often one target may give cause to read from the source's API server, after readsBurst: it
	// shows another version of a PodChaperon, or one whose proxy is not in the cache.
	readsPerSecond, readsBurst = 300, 3000
	// readLater is how long a read waits that the budget does not allow.
	readLater = 5 * time.Second
)

type requestQueue = engage.Queue[reconcile.Request]

// Options of New. All are required, except Tenants, LastRenewal, PlacedBeside, CannotStart and Annotations.
type Options struct {
	// Client reads pods and nodes of the source cluster from a cache, and writes to the source cluster. The cache may
	// hold objects that package podcache has transformed.
	Client client.Client
	// Proxies lists proxies by their node, from the same cache.
	Proxies *podcache.ByNode
	// APIReader reads from the source cluster's API server.
	APIReader client.Reader
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Keys returns the keys that sign PodChaperons, or an error while there are none.
	Keys func() (*proof.Keys, error)
	// Addresses decides which addresses of delegates proxies may show.
	Addresses *addresses.InUse
	// Tenants limits the addresses of Targets, which tenants write.
	Tenants configv1alpha1.Tenants
	// LastRenewal returns when this source last tried to renew its Lease in a target, or in any target in the cluster
	// with this ID, or when it began to lead if that was later. It is the zero time before. Without LastRenewal, the
	// end of fenced delegates in lost targets is never taken for granted.
	LastRenewal func(target types.NamespacedName, cluster string) time.Time
	// PlacedBeside returns another target that may have a delegate of a proxy on this node, although its cache shows
	// none, or nil. Without it, no target may.
	PlacedBeside func(proxy types.UID, nodeName string) *engage.Target
	// CannotStart is called when a warning says that a delegate in a target lacks what its pod refers to, as far as
	// the reason shows. It must return soon.
	CannotStart func(proxy *corev1.Pod, target *engage.Target)
	// Annotations are those that proxies take over from their delegates.
	Annotations []string
	// Clock measures how long a target's manager has not answered a request.
	Clock clock.PassiveClock
	// Recorder records events about proxies.
	Recorder events.EventRecorder
	// Logger is the parent of the loggers of the targets' workers.
	Logger logr.Logger
}

// Feedback copies the status of delegates to proxies, and deletions in both directions. It must observe an
// engage.Registry before the first target is engaged, and must run on the leader only.
type Feedback struct {
	options Options

	// wake enqueues proxies whose addresses are to be decided anew.
	wake wake.Source

	// ends holds what is remembered of PodChaperons in case they go.
	ends allEnds

	// forced holds the UIDs of proxies that were deleted by force a moment ago.
	forced *cache.Expiring

	// warned holds which warnings about delegates were recorded.
	warned warned

	// doubts holds why fencing does not hold in lost targets, by types.NamespacedName, as events say.
	doubts sync.Map

	// queues holds the queues of the engaged targets' workers.
	queues engage.PerTarget[routed]
}

// routed is the queue of a target's workers.
type routed struct {
	target *engage.Target
	queue  requestQueue
}

var _ engage.Observer = &Feedback{}

// New returns a Feedback, which does nothing before Register and Engaged.
func New(options Options) *Feedback {
	if options.PlacedBeside == nil {
		options.PlacedBeside = func(types.UID, string) *engage.Target { return nil }
	}
	if options.CannotStart == nil {
		options.CannotStart = func(*corev1.Pod, *engage.Target) {}
	}
	return &Feedback{options: options, ends: allEnds{clock: options.Clock}, forced: cache.NewExpiring()}
}

// Register adds the watch of pods to the manager.
func (f *Feedback) Register(mgr manager.Manager) error {
	if err := f.registerPods(mgr); err != nil {
		return err
	}
	return f.registerFenced(mgr)
}

// Engaged starts the target's workers, which stop with ctx. They first reconcile all of its PodChaperons and all
// proxies on its node.
func (f *Feedback) Engaged(ctx context.Context, target *engage.Target) error {
	workers := engage.NewWorkers(engage.WorkersOptions[reconcile.Request]{
		Name:       controllerName,
		Reconciler: f.Reconciler(target),
		Count:      workersPerTarget,
		FirstRetry: firstRetry,
		LastRetry:  lastRetry,
		Logger:     f.options.Logger.WithValues("target", target.Key),
	})
	if err := workers.Start(ctx); err != nil {
		return err
	}
	return f.Fill(ctx, target, workers.Queue)
}

// Reconciler returns what reconciles the proxies in an engaged target. It is called for one proxy by one worker at a
// time.
func (f *Feedback) Reconciler(target *engage.Target) reconcile.Reconciler {
	return &reconciler{
		options: f.options, feedback: f, target: target, ends: f.ends.of(target),
		budget:      rate.NewLimiter(warningsPerSecond, warningsBurst),
		annotations: rate.NewLimiter(annotationsPerSecond, annotationsBurst),
		statuses:    rate.NewLimiter(statusesPerSecond, statusesBurst),
		reads:       rate.NewLimiter(readsPerSecond, readsBurst),
	}
}

// Fill fills the queue of an engaged target's workers until ctx ends. It returns when the queue has all PodChaperons of
// the target, and all proxies on its node.
func (f *Feedback) Fill(ctx context.Context, target *engage.Target, queue engage.Queue[reconcile.Request]) error {
	f.warned.begin(f.options.Clock.Now())
	f.queues.Set(ctx, target, routed{target, queue})
	enqueue := func(chaperon *v1alpha1.PodChaperon) { queue.Add(parentOf(chaperon)) }
	ends := f.ends.of(target)
	context.AfterFunc(ctx, func() { f.ends.forget(target) })
	seen := func(chaperon *v1alpha1.PodChaperon) { ends.note(chaperon); enqueue(chaperon) }
	gone := func(chaperon *v1alpha1.PodChaperon) { f.goneFrom(ctx, target, chaperon, ends); enqueue(chaperon) }
	if err := engage.OnEvents(ctx, target, &v1alpha1.PodChaperon{}, seen, gone); err != nil {
		return err
	}
	return f.enqueueProxies(ctx, target, queue)
}

// goneFrom forgets a PodChaperon that is gone, if its proxy is gone, too, or bound to another node. The workers would
// forget it, too, but a target that answers slowly keeps them busy, and shows others meanwhile.
func (f *Feedback) goneFrom(
	ctx context.Context, target *engage.Target, chaperon *v1alpha1.PodChaperon, ends *ends,
) {
	proxy, parent := &corev1.Pod{}, gate.ParentOf(chaperon)
	err := f.options.Client.Get(ctx, parent.Key, proxy, client.UnsafeDisableDeepCopy)
	node := proxy.Spec.NodeName
	if client.IgnoreNotFound(err) == nil && (proxy.UID != parent.UID || node != "" && node != target.NodeName) {
		ends.forget(parent)
	}
}

// route enqueues a proxy at the target of its node. If everywhere is set, it enqueues the proxy at all targets that may
// have a PodChaperon for it.
func (f *Feedback) route(proxy *corev1.Pod, everywhere bool) {
	for _, to := range f.queues.All() {
		if to.target.NodeName == proxy.Spec.NodeName || everywhere && to.target.Allows(proxy.Namespace) {
			to.queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(proxy)})
		}
	}
}

func parentOf(chaperon *v1alpha1.PodChaperon) reconcile.Request {
	return reconcile.Request{NamespacedName: gate.ParentOf(chaperon).Key}
}

// enqueueProxies enqueues the proxies that are bound to the target's node.
func (f *Feedback) enqueueProxies(ctx context.Context, target *engage.Target, q requestQueue) error {
	proxies, err := f.options.Proxies.List(ctx, target.NodeName)
	if err != nil {
		return err
	}
	for i := range proxies.Items {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&proxies.Items[i])})
	}
	return nil
}
