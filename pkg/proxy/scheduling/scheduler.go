package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulerprofile "k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// gather is how long changes of a target that come in great numbers are gathered before pods are woken.
const gather = 50 * time.Millisecond

// targetsTimeout is how long a new leader waits for targets that were connected before it places pods.
const targetsTimeout = 10 * time.Second

// Options of a Scheduler. Only the last three may be left out.
type Options struct {
	// Config of the source cluster. Its rate limit is not used: the API server's priority and fairness is.
	Config *rest.Config
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Registry of engaged targets, which New observes.
	Registry *engage.Registry
	// Strategy of placement.
	Strategy configv1alpha1.PlacementStrategy
	// Timeout is how long a target may take to schedule a delegate.
	Timeout time.Duration
	// Follower has what pods refer to go with them; nothing does by default.
	Follower Follower
	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
	// Metrics is where the scheduler's metrics are registered, unless it is nil.
	Metrics prometheus.Registerer
}

// Scheduler schedules proxies. It is a manager.Runnable for the leader alone, and an engage.Observer.
type Scheduler struct {
	clientset kubernetes.Interface
	clock     clock.WithTickerAndDelayedExecution
	plugin    *plugin
	// engaged has room for one: a target has been engaged.
	engaged chan struct{}
	// queue of the running scheduler; nil until it starts.
	queue atomic.Pointer[running]
}

type running struct {
	pods   queue.SchedulingQueue
	logger klog.Logger
}

// New makes a Scheduler, which knows the targets that are engaged from now on.
func New(options Options) (*Scheduler, error) {
	if options.Timeout <= 0 {
		return nil, errors.New("making the scheduler: the placement timeout must be positive")
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	config := rest.CopyConfig(options.Config)
	config.QPS = -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making the scheduler's client: %w", err)
	}
	s := &Scheduler{clientset: clientset, clock: options.Clock, engaged: make(chan struct{}, 1)}
	s.plugin = newPlugin(options, s.wakePod, s.wakeSoon)
	if options.Metrics != nil {
		if err := s.plugin.metrics.register(options.Metrics); err != nil {
			return nil, fmt.Errorf("registering the scheduler's metrics: %w", err)
		}
	}
	options.Registry.Observe(s)
	return s, nil
}

func newPlugin(options Options, lifted func(types.NamespacedName, types.UID), changed func(*target)) *plugin {
	if options.Follower == nil {
		options.Follower = nowhere{}
	}
	placements, exclusions, trials := newPlacements(), newExclusions(options.Clock, lifted), newTrials()
	explanations := diagnosis.NewStore(options.Clock)
	return &plugin{
		strategy:     options.Strategy,
		targets:      newTargets(),
		placements:   placements,
		exclusions:   exclusions,
		trials:       trials,
		explanations: explanations,
		metrics:      newMetrics(),
		changed:      changed,
		placer: &placer{
			source:     options.Source,
			follower:   options.Follower,
			timeout:    options.Timeout,
			clock:      options.Clock,
			placements: placements,
			exclusions: exclusions,
			trials:     trials,
			waits:      explanations.Waits,
		},
	}
}

// NeedLeaderElection is true: two schedulers would place two delegates.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start schedules until ctx ends. It must be called once. What waits for a target when ctx ends is left as it is, for
// the next leader to find.
func (s *Scheduler) Start(ctx context.Context) error {
	proxies, err := profile()
	if err != nil {
		return err
	}
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.clientset.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	defer broadcaster.Shutdown()
	factory := newInformers(s.clientset)
	defer factory.Shutdown()
	scheduler, err := kubescheduler.New(
		ctx,
		s.clientset,
		factory,
		nil,
		schedulerprofile.NewRecorderFactory(broadcaster),
		kubescheduler.WithProfiles(proxies),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			Name:      s.initialize,
			turnsName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return turns{}, nil },
		}),
		kubescheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)),
		kubescheduler.WithClock(s.clock),
	)
	if err != nil {
		return fmt.Errorf("making the scheduler: %w", err)
	}
	scheduler.FailureHandler = s.handleFailure(scheduler.FailureHandler, scheduler.SchedulingQueue)
	if err := handleProxies(factory.Core().V1().Pods().Informer(), s.proxyConcluded); err != nil {
		return err
	}
	if err := handleNamespaces(factory.Core().V1().Namespaces().Informer(), s.namespaceEnabled); err != nil {
		return err
	}
	s.queue.Store(&running{scheduler.SchedulingQueue, klog.FromContext(ctx)})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := scheduler.WaitForHandlersSync(ctx); err != nil {
		return nil // ctx ended
	}
	s.awaitTargets(ctx, factory.Core().V1().Nodes().Lister())
	scheduler.Run(ctx)
	return nil
}

// awaitTargets returns when the target of every ready virtual node is engaged: it may have delegates that another
// leader placed. One that takes longer than it should is not waited for.
func (s *Scheduler) awaitTargets(ctx context.Context, nodes corelisters.NodeLister) {
	timer := s.clock.NewTimer(targetsTimeout)
	defer timer.Stop()
	for {
		all, err := nodes.List(labels.Everything())
		if err != nil || !slices.ContainsFunc(all, s.expected) {
			return
		}
		select {
		case <-s.engaged:
		case <-timer.C():
			log.FromContext(ctx).Info("Starting to schedule although not all targets are connected that were")
			return
		case <-ctx.Done():
			return
		}
	}
}

// expected says whether a virtual node's target was connected and will be.
func (s *Scheduler) expected(node *corev1.Node) bool {
	return s.plugin.targets.get(node.Name) == nil &&
		slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		})
}

func (s *Scheduler) initialize(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	binder, err := defaultbinder.New(ctx, nil, handle)
	if err != nil {
		return nil, fmt.Errorf("making the binder: %w", err)
	}
	bindPlugin, ok := binder.(fwk.BindPlugin)
	if !ok {
		return nil, fmt.Errorf("making the binder: %T does not bind", binder)
	}
	s.plugin.binder = bindPlugin
	s.plugin.handle = handle
	s.plugin.namespaces = handle.SharedInformerFactory().Core().V1().Namespaces().Lister()
	return s.plugin, nil
}

func (s *Scheduler) proxyConcluded(pod *corev1.Pod, state proxyState) {
	s.plugin.placements.forgetProxy(pod.UID, state) // first, for placer.place
	s.forget(pod.UID)
}

// forget what was noted of a pod that needs no target any more.
func (s *Scheduler) forget(pod types.UID) {
	s.plugin.exclusions.forget(pod)
	s.plugin.trials.forget(pod)
	s.plugin.demands.forget(pod)
}

// wakePods reconsiders those that were rejected, where a target has changed.
func (s *Scheduler) wakePods(t *target) { s.wake(targetChange, t) }

// wakeSoon does the same once for all changes of a short while.
func (s *Scheduler) wakeSoon(t *target) {
	if !t.waking.Swap(true) {
		s.clock.AfterFunc(gather, func() {
			t.waking.Store(false)
			s.wakePods(t)
		})
	}
}

func (s *Scheduler) namespaceEnabled(namespace *corev1.Namespace) {
	s.wake(namespaceEnabled, namespace)
}

// wake reconsiders the rejected pods that an event can help. Before the scheduler has started there are none.
func (s *Scheduler) wake(resource fwk.EventResource, object any) {
	if q := s.queue.Load(); q != nil {
		event := fwk.ClusterEvent{Resource: resource, ActionType: fwk.Update}
		q.pods.MoveAllToActiveOrBackoffQueue(q.logger, event, nil, object, nil)
	}
}

// wakePod reconsiders one pod at once, if it was rejected or is about to be.
func (s *Scheduler) wakePod(key types.NamespacedName, uid types.UID) {
	if q := s.queue.Load(); q != nil {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid}}
		q.pods.Activate(q.logger, map[string]*corev1.Pod{key.String(): pod})
	}
}
