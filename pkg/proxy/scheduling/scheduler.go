package scheduling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulerprofile "k8s.io/kubernetes/pkg/scheduler/profile"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	configv1alpha1 "github.com/multicluster-scheduler/multicluster-scheduler/api/config/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/attempts"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// targetsTimeout is how long a new leader waits for targets that were connected before it places pods.
const targetsTimeout = 10 * time.Second

// Options of a Scheduler. Only the last five may be left out.
type Options struct {
	// Config of the source cluster. Its rate limit is not used: the API server's priority and fairness is.
	Config *rest.Config
	// Source is the source cluster's identity in targets.
	Source translate.Source
	// Sign proves to this source that it made a PodChaperon.
	Sign func(claim proof.Claim) (string, error)
	// Registry of engaged targets, which New observes.
	Registry *engage.Registry
	// Strategy of placement.
	Strategy configv1alpha1.PlacementStrategy
	// Timeout is how long a target may take to schedule a delegate.
	Timeout time.Duration
	// KeepLabels gives delegates the labels of their pods under their own keys, too, unless a target's policy says
	// otherwise.
	KeepLabels bool
	// Annotations are those that proxies take over from their delegates.
	Annotations []string
	// Follower makes the objects that pods refer to follow them. By default none do.
	Follower Follower
	// Clock is the real one by default.
	Clock clock.WithTickerAndDelayedExecution
	// Targets reads ClusterTargets and Targets from a cache. Without it, pods do not wait for targets that are not
	// engaged yet, where an earlier leader may have placed them.
	Targets client.Reader
	// Metrics is where the scheduler's metrics are registered, unless it is nil.
	Metrics prometheus.Registerer
}

// Scheduler schedules proxies. It is a manager.Runnable for the leader alone, and an engage.Observer.
type Scheduler struct {
	clientset kubernetes.Interface
	clock     clock.WithTickerAndDelayedExecution
	clusterID string
	plugin    *plugin
	// engaged has room for one: a target has been engaged.
	engaged chan struct{}
}

// New makes a Scheduler, which observes the targets that are engaged from now on.
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
	s := &Scheduler{
		clientset: clientset,
		clock:     options.Clock,
		clusterID: options.Source.ClusterID,
		plugin:    newPlugin(options),
		engaged:   make(chan struct{}, 1),
	}
	if options.Metrics != nil {
		if err := s.plugin.metrics.register(options.Metrics); err != nil {
			return nil, fmt.Errorf("registering the scheduler's metrics: %w", err)
		}
	}
	options.Registry.Observe(s)
	return s, nil
}

func newPlugin(options Options) *plugin {
	if options.Follower == nil {
		options.Follower = noFollower{}
	}
	waker := &waker{clock: options.Clock}
	p := &plugin{
		strategy: options.Strategy,
		clock:    options.Clock,
		targets:  newTargets(),
		placer: placement.New(placement.Options{
			Source:     options.Source,
			Sign:       options.Sign,
			Timeout:    options.Timeout,
			KeepLabels: options.KeepLabels,
			Clock:      options.Clock,
			Ensure:     options.Follower.Ensure,

			Annotations: options.Annotations,
		}),
		elders:       newElders(options.Targets, options.Clock),
		follower:     options.Follower,
		waker:        waker,
		stays:        newStays(options.Clock),
		keeping:      newKeeping(options.Clock),
		explanations: diagnosis.NewStore(options.Clock),
		metrics:      newMetrics(),
	}
	waker.offer = p.offer
	p.attempts = attempts.New(options.Clock, p.exclusionEnded)
	return p
}

// exclusionEnded reconsiders a pod that a target refused some time ago, wherever the pod waits.
func (p *plugin) exclusionEnded(key types.NamespacedName, pod types.UID) {
	p.waker.pod(key, pod)
	p.look(pod)
}

// NeedLeaderElection is true: two schedulers would place two delegates.
func (s *Scheduler) NeedLeaderElection() bool { return true }

// Start schedules until ctx ends. It must be called once. PodChaperons of pods that wait for a target when ctx ends
// stay as they are, and the next leader finds them.
func (s *Scheduler) Start(ctx context.Context) error {
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: s.clientset.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("starting to record events: %w", err)
	}
	defer broadcaster.Shutdown()
	factory := newInformers(s.clientset)
	defer factory.Shutdown()
	scheduler, err := s.framework(ctx, factory, schedulerprofile.NewRecorderFactory(broadcaster))
	if err != nil {
		return err
	}
	if err := handleProxies(factory.Core().V1().Pods().Informer(), s.proxyConcluded); err != nil {
		return err
	}
	if err := handleNamespaces(factory.Core().V1().Namespaces().Informer(), s.namespaceEnabled); err != nil {
		return err
	}
	s.plugin.waker.started(scheduler.SchedulingQueue, klog.FromContext(ctx))
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := scheduler.WaitForHandlersSync(ctx); err != nil {
		return nil // ctx ended
	}
	s.plugin.elders.list(ctx, s.clientset)
	s.awaitTargets(ctx, factory.Core().V1().Nodes().Lister())
	scheduler.Run(ctx)
	return nil
}

// framework returns the scheduler of Kubernetes, with our profile.
func (s *Scheduler) framework(
	ctx context.Context,
	factory informers.SharedInformerFactory,
	recorders schedulerprofile.RecorderFactory,
) (*kubescheduler.Scheduler, error) {
	proxies, err := profile()
	if err != nil {
		return nil, err
	}
	scheduler, err := kubescheduler.New(
		ctx,
		s.clientset,
		factory,
		nil,
		recorders,
		kubescheduler.WithProfiles(proxies),
		kubescheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			Name:      s.initialize,
			turnsName: func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return turns{}, nil },
		}),
		kubescheduler.WithPercentageOfNodesToScore(ptr.To[int32](100)),
		kubescheduler.WithClock(s.clock),
	)
	if err != nil {
		return nil, fmt.Errorf("making the scheduler: %w", err)
	}
	scheduler.FailureHandler = s.handleFailure(scheduler.FailureHandler, scheduler.SchedulingQueue)
	return scheduler, nil
}

// awaitTargets returns when the target of every ready virtual node is engaged, because the target may have delegates
// that another leader placed. It returns without the targets that take longer than targetsTimeout.
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
	s.plugin.nodes = handle.SharedInformerFactory().Core().V1().Nodes().Lister()
	return s.plugin, nil
}

// proxyConcluded forgets a pod that needs no target any more.
func (s *Scheduler) proxyConcluded(pod *corev1.Pod, state placement.ProxyState) {
	if state == placement.ProxyGone && pod.Spec.NodeName != "" {
		s.plugin.placer.Delegates.Released(pod)
	}
	s.plugin.placer.Delegates.Concluded(pod.UID, state)
	s.plugin.concluded(pod.UID)
}

func (s *Scheduler) namespaceEnabled(namespace *corev1.Namespace) {
	s.plugin.waker.event(namespaceEnabled, namespace)
}
