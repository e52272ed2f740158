package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/delegate/chaperon"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/engage"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate/proof"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/feedback"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	objectwatch "github.com/multicluster-scheduler/multicluster-scheduler/pkg/watch"
)

const (
	namespace  = "default"
	sourceID   = "source"
	nodePrefix = "admiralty-"
)

var errCrash = errors.New("the process ended")

// process is a manager that runs until it crashes.
type process struct {
	world  *network
	name   string
	ctx    context.Context //nolint:containedctx // It is the process's life.
	crash  context.CancelCauseFunc
	queues []*queue
	caches []*lagging
}

func (w *network) newProcess(name string) *process {
	p := &process{world: w, name: name}
	life := logr.NewContext(context.Background(), logr.Discard()) //nolint:forbidigo // It ends with crash.
	p.ctx, p.crash = context.WithCancelCause(life)
	return p
}

func (p *process) alive() bool { return p != nil && p.ctx.Err() == nil }

// cache adds a cache that has synced.
func (p *process) cache(what string, from *cluster, kind string, selects func(client.Object) bool) *lagging {
	l := newLagging(p.name+"'s "+what, from, kind, selects)
	l.ctx = p.ctx
	p.caches = append(p.caches, l)
	return l
}

// startTarget starts the manager of a target.
func (w *world) startTarget(k *kubernetes) *process {
	p := w.newProcess(k.name + "'s manager")
	chaperons := p.cache("cache of PodChaperons", k.cluster, kindChaperon, everything)
	pods := p.cache("cache of pods", k.cluster, kindPod, everything)
	l := &link{process: p, to: k.cluster, caches: caches{kindChaperon: chaperons, kindPod: pods}}
	reconciler := chaperon.New(l, live{link: l}, clock.RealClock{}, silent{}, "")
	q := newQueue(p, p.name, reconciler)
	enqueue := func(o metav1.Object) {
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}})
	}
	onEvents(chaperons, func(c *v1alpha1.PodChaperon) { enqueue(c) })
	onEvents(pods, func(pod *corev1.Pod) {
		if owner := metav1.GetControllerOf(pod); owner != nil {
			enqueue(&metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name})
		}
	})
	return p
}

func onEvents[T client.Object](l *lagging, f func(T)) {
	_, _ = l.AddEventHandler(objectwatch.On(f, f))
}

// silent records no events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// source is the manager of the source.
type source struct {
	*process

	world    *world
	pods     *lagging // the manager's cache
	proxies  *lagging // the scheduler's cache
	link     *link
	feedback *feedback.Feedback
	registry *engage.Registry
	placer   *placement.Placer
	engaged  map[*kubernetes]*engagement
	// attempts are the pods that are being placed, or wait for the next attempt.
	attempts map[types.UID]*attempt
}

// engagement is an engaged target.
type engagement struct {
	*process

	target *placement.Target
	end    context.CancelFunc
}

// attempt is what is known of the placement of a pod.
type attempt struct {
	running bool
	next    time.Time
}

func (w *world) startSource() *source {
	p := w.newProcess("the source's manager")
	s := &source{
		process: p, world: w, registry: engage.NewRegistry(), engaged: map[*kubernetes]*engagement{},
		attempts: map[types.UID]*attempt{},
	}
	s.pods = p.cache("cache of pods", w.source, kindPod, everything)
	s.proxies = p.cache("scheduler's cache", w.source, kindPod, func(o client.Object) bool {
		return !finished(statusOf(o).Phase)
	})
	s.link = &link{process: p, to: w.source, caches: caches{kindPod: s.pods}}
	s.feedback = feedback.New(feedback.Options{
		Client: s.link, APIReader: live{link: s.link}, Source: translate.Source{ClusterID: sourceID},
		Keys:  func() (*proof.Keys, error) { return nil, errNotOffered },
		Clock: clock.RealClock{}, Recorder: silent{}, Logger: logr.Discard(),
	})
	s.placer = placement.New(placement.Options{
		Source: translate.Source{ClusterID: sourceID}, Timeout: placementTimeout, Clock: clock.RealClock{},
		Sign:   func(proof.Claim) (string, error) { return "signed", nil },
		Ensure: func(context.Context, *corev1.Pod, *engage.Target) error { return nil },
	})
	s.watchPods()
	for _, k := range w.targets {
		if k.cut {
			w.excuseUnbound()
		} else {
			s.engage(k)
		}
	}
	return s
}

const placementTimeout = 30 * time.Second

func (s *source) watchPods() {
	q := newQueue(s.process, s.name+"'s pods", reconcile.Func(s.feedback.ReconcilePod))
	h := s.feedback.PodHandler()
	_, _ = s.pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { h.Create(s.ctx, event.TypedCreateEvent[*corev1.Pod]{Object: o.(*corev1.Pod)}, q) },
		UpdateFunc: func(before, after any) {
			h.Update(s.ctx, event.TypedUpdateEvent[*corev1.Pod]{
				ObjectOld: before.(*corev1.Pod), ObjectNew: after.(*corev1.Pod),
			}, q)
		},
		DeleteFunc: func(o any) {
			_, unknown := o.(toolscache.DeletedFinalStateUnknown)
			if pod, ok := objectwatch.Unwrap[*corev1.Pod](o); ok {
				h.Delete(s.ctx, event.TypedDeleteEvent[*corev1.Pod]{Object: pod, DeleteStateUnknown: unknown}, q)
			}
		},
	})
	_, _ = s.proxies.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(_, o any) {
			pod, _ := o.(*corev1.Pod)
			switch {
			case pod.Spec.NodeName != "":
				s.placer.Delegates.Concluded(pod.UID, placement.ProxyBound)
			case pod.DeletionTimestamp != nil:
				s.placer.Delegates.Concluded(pod.UID, placement.ProxyGone)
			}
		},
		DeleteFunc: func(o any) {
			if pod, ok := objectwatch.Unwrap[*corev1.Pod](o); ok {
				s.placer.Delegates.Concluded(pod.UID, placement.ProxyGone)
			}
		},
	})
}

// engage engages a target, perhaps anew.
func (s *source) engage(k *kubernetes) {
	key := types.NamespacedName{Name: k.name}
	e := &engagement{process: s.process}
	ctx, end := context.WithCancel(s.ctx)
	e.end = end
	selects := func(o client.Object) bool {
		return o.GetLabels()[v1alpha1.LabelParentClusterID] == sourceID &&
			translate.MadeFor(o.GetLabels(), translate.TargetID(key))
	}
	cached := caches{kindChaperon: s.cache("cache of "+k.name, k.cluster, kindChaperon, selects)}
	cached[kindChaperon].ctx = ctx
	l := &link{process: s.process, to: k.cluster, caches: cached}
	t := &engage.Target{
		Key: key, NodeName: translate.VirtualNodeName(key), Hash: translate.TargetHash(key),
		Client: l, APIReader: live{link: l}, Cache: targetCache{caches: cached},
	}
	e.target = placement.NewTarget(ctx, t, sourceID, clock.RealClock{})
	before := s.engaged[k]
	s.engaged[k] = e
	q := newQueue(s.process, fmt.Sprintf("%s for %s", s.name, k.name), s.feedback.Reconciler(t))
	q.ctx = ctx
	d := s.placer.Delegates
	_ = engage.OnEvents(ctx, t, &v1alpha1.PodChaperon{},
		func(c *v1alpha1.PodChaperon) { d.Seen(e.target, c) },
		func(c *v1alpha1.PodChaperon) {
			if d.Gone(e.target, c) {
				s.wake(placement.ProxyUID(c))
			}
		})
	_ = s.feedback.Fill(ctx, t, q)
	context.AfterFunc(ctx, func() { d.ForgetTarget(e.target) })
	if before != nil {
		before.end()
	}
}

// lose notes that a target does not answer.
func (s *source) lose(k *kubernetes) {
	if e := s.engaged[k]; e != nil && e.target.Reachable() {
		s.world.excuseUnbound()
		s.registry.Lose(e.target.Target)
		s.placer.Delegates.NotifyTarget(e.target.Target)
	}
}

func (s *source) wake(proxy types.UID) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if a := s.attempts[proxy]; a != nil {
		a.next = time.Time{}
	}
}

// waiting returns the proxies that can be placed now.
func (s *source) waiting() []*corev1.Pod {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	var pods []*corev1.Pod
	for _, o := range sorted(s.proxies.objects) {
		pod := asPod(o)
		a := s.attempts[pod.UID]
		if pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil &&
			(a == nil || !a.running && !a.next.After(time.Now())) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// placements are those that are possible now. They are what package scheduling does around placement.
func (s *source) placements(pod *corev1.Pod) []action {
	var all []action
	for _, e := range s.candidates(pod) {
		all = append(all, action{"the source places " + pod.Name + " in " + e.target.Key.Name, func() {
			s.note(pod.UID, attempt{running: true})
			s.world.start(s.name+" places", func() { s.attempt(pod, e) })
		}})
	}
	return all
}

func (s *source) note(pod types.UID, a attempt) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.attempts[pod] = &a
}

// candidates are the targets in which a proxy may be placed now.
func (s *source) candidates(pod *corev1.Pod) []*engagement {
	holder := s.placer.Delegates.Holder(pod.UID)
	var all []*engagement
	for _, k := range s.world.targets {
		e := s.engaged[k]
		if e == nil || !e.target.Reachable() || holder != nil && holder != e.target {
			continue
		}
		all = append(all, e)
	}
	return all
}

func (s *source) attempt(pod *corev1.Pod, e *engagement) {
	_, err := s.placer.Place(s.ctx, pod, e.target, placement.Expectation{Waiting: func(string) {}})
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		err = s.link.bind(ctx, pod, e.target.NodeName)
	}
	if err != nil {
		s.note(pod.UID, attempt{next: time.Now().Add(time.Second)})
	}
}
