package warnings

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	objectwatch "github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	// writesPerSecond is how many PodChaperons may be written in a second because of warnings, after burst.
	writesPerSecond = 20
	burst           = 100

	reasonFailedScheduling = "FailedScheduling"
)

// Options of New. All are required.
type Options struct {
	// Pods reads pods from a cache. They need the fields that package podcache keeps of delegates.
	Pods client.Reader
	// Events lists and watches the events of all namespaces.
	Events corev1client.EventInterface
	// Wake makes the controller of PodChaperons reconcile one.
	Wake   func(chaperon types.NamespacedName)
	Clock  clock.WithTicker
	Logger logr.Logger
}

// Warnings has the newest warnings about delegates. It is a Runnable of a manager, and safe for concurrent use.
type Warnings struct {
	options Options
	queue   workqueue.TypedDelayingInterface[types.NamespacedName]
	budget  *rate.Limiter

	mu sync.Mutex // guards delegates
	// delegates has those with warnings, by the key that delegate and PodChaperon share.
	delegates map[types.NamespacedName]*entry
}

// New returns Warnings that knows none before Start.
func New(options Options) *Warnings {
	return &Warnings{
		options: options,
		queue: workqueue.NewTypedDelayingQueueWithConfig(
			workqueue.TypedDelayingQueueConfig[types.NamespacedName]{Clock: options.Clock},
		),
		budget:    rate.NewLimiter(writesPerSecond, burst),
		delegates: map[types.NamespacedName]*entry{},
	}
}

// NeedLeaderElection returns true: only the leader writes PodChaperons.
func (*Warnings) NeedLeaderElection() bool { return true }

// Start watches events until ctx ends, and tries again after errors.
func (w *Warnings) Start(ctx context.Context) error {
	context.AfterFunc(ctx, w.queue.ShutDown)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		w.showAll(ctx)
	}()
	failed := false
	from := &stream{events: w.options.Events, see: w.see, ctx: ctx, works: func() { failed = false }}
	reflector := toolscache.NewReflectorWithOptions(from, &corev1.Event{}, from, toolscache.ReflectorOptions{
		Name: "warnings", Clock: w.options.Clock,
	})
	objectwatch.Again(ctx, w.options.Clock, time.Second, 30*time.Second, func(ctx context.Context) {
		err := reflector.ListAndWatchWithContext(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			failed = true
			w.options.Logger.Error(err, "Cannot watch the warnings about delegates; trying again")
		}
	})
	<-shown
	return nil
}

// Of returns the warnings that the status of a PodChaperon is to show.
func (w *Warnings) Of(chaperon *v1alpha1.PodChaperon) []corev1.PodCondition {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.delegates[client.ObjectKeyFromObject(chaperon)]
	if !ok || e.chaperon != chaperon.UID {
		return nil
	}
	return e.shown
}

// Forget forgets the warnings of a PodChaperon that is gone.
func (w *Warnings) Forget(chaperon types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.delegates, chaperon)
}

// see notes an event if it is about a delegate.
func (w *Warnings) see(ctx context.Context, event *corev1.Event) {
	reason := translate.WarningReason(event.Reason)
	if reason == "" || reason == reasonFailedScheduling {
		return
	}
	about := types.NamespacedName{Namespace: event.InvolvedObject.Namespace, Name: event.InvolvedObject.Name}
	pod := &corev1.Pod{}
	if err := w.options.Pods.Get(ctx, about, pod, client.UnsafeDisableDeepCopy); err != nil {
		return // There is no such pod any more: nobody needs to know.
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.UID != event.InvolvedObject.UID || owner == nil || owner.Kind != "PodChaperon" || owner.Name != pod.Name {
		return
	}
	w.note(about, owner.UID, translate.Warning(reason, event.Message, lastTime(event)))
}

func (w *Warnings) note(delegate types.NamespacedName, chaperon types.UID, warning corev1.PodCondition) {
	w.mu.Lock()
	e, ok := w.delegates[delegate]
	if !ok || e.chaperon != chaperon {
		e = &entry{chaperon: chaperon}
		w.delegates[delegate] = e
	}
	e.note(warning)
	after, pending := e.wait(w.options.Clock.Now())
	w.mu.Unlock()
	if pending {
		w.queue.AddAfter(delegate, after)
	}
}

// showAll shows warnings when their time has come, and the budget allows it.
func (w *Warnings) showAll(ctx context.Context) {
	for {
		delegate, ended := w.queue.Get()
		if ended {
			return
		}
		if w.due(delegate) && w.spend(ctx) && w.show(delegate) {
			w.options.Wake(delegate)
		}
		w.queue.Done(delegate)
	}
}

// due says whether the latest warnings of a delegate may be shown. If it is too early, they come again.
func (w *Warnings) due(delegate types.NamespacedName) bool {
	w.mu.Lock()
	e, ok := w.delegates[delegate]
	after, pending := time.Duration(0), false
	if ok {
		after, pending = e.wait(w.options.Clock.Now())
	}
	w.mu.Unlock()
	if pending && after > 0 {
		w.queue.AddAfter(delegate, after)
	}
	return pending && after == 0
}

// spend waits until the budget allows a write. It returns false if ctx has ended.
func (w *Warnings) spend(ctx context.Context) bool {
	now := w.options.Clock.Now()
	after := w.budget.ReserveN(now, 1).DelayFrom(now)
	if after <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-w.options.Clock.After(after):
		return true
	case <-ctx.Done():
		return false
	}
}

// show makes Of return the latest warnings. It returns false if the delegate was forgotten meanwhile.
func (w *Warnings) show(delegate types.NamespacedName) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, ok := w.delegates[delegate]
	if ok {
		e.show(w.options.Clock.Now())
	}
	return ok
}

// lastTime returns when an event last happened. Recorders of the two APIs for events write different fields.
func lastTime(event *corev1.Event) time.Time {
	last := event.CreationTimestamp.Time
	if event.Series != nil && event.Series.LastObservedTime.After(last) {
		last = event.Series.LastObservedTime.Time
	}
	for _, t := range []time.Time{event.LastTimestamp.Time, event.EventTime.Time} {
		if t.After(last) {
			last = t
		}
	}
	return last
}
