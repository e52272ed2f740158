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
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/podcache"
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
	of     *cluster
	name   string
	ctx    context.Context //nolint:containedctx // It is the process's life.
	crash  context.CancelCauseFunc
	queues []*queue
	caches []*lagging
	// frozen processes do nothing. fenced is one that may not write any more, and left is how many steps it
	// does until it notices that another process leads; negative before.
	frozen, fenced bool
	left           int
	// backs is how often its cluster had been set back when it began.
	backs int
}

// newProcess begins a process. Its name has a number if it has a predecessor, which may go on beside it: so each step
// of a run has a label of its own.
func (w *world) newProcess(name string, of *cluster) *process {
	w.began[name]++
	if n := w.began[name]; n > 1 {
		name = fmt.Sprintf("%s no. %d", name, n)
	}
	return w.network.newProcess(name, of)
}

func (w *network) newProcess(name string, of *cluster) *process {
	p := &process{world: w, name: name, of: of, left: -1}
	life := logr.NewContext(context.Background(), logr.Discard()) //nolint:forbidigo // It ends with crash.
	p.ctx, p.crash = context.WithCancelCause(life)
	return p
}

func (p *process) alive() bool { return p != nil && p.ctx.Err() == nil }

// acts says whether the process runs, and may act.
func (p *process) acts() bool { return p.alive() && !p.frozen && p.left < 0 }

// expire counts the steps of a process that no longer leads, and does not know it yet.
func (p *process) expire() {
	if p.frozen || p.left < 0 {
		return
	}
	if p.left == 0 {
		p.crash(errCrash)
	}
	p.left--
}

// cache adds a cache that has synced. Its list may be so many changes old.
func (p *process) cache(what string, of view, selects func(client.Object) bool) *lagging {
	l := newLagging(p.name+"'s "+what, of, selects)
	l.ctx = p.ctx
	p.caches = append(p.caches, l)
	return l
}

// view is what a cache lists: the objects of a kind, perhaps as they were so many changes ago.
type view struct {
	from *cluster
	kind string
	ago  int
}

func lagged(from *cluster, kind string, ago int) view {
	return view{from, kind, min(ago, len(from.logs[kind]))}
}

// startTarget starts the manager of a target. Its lists are so many changes old.
func (w *world) startTarget(k *kubernetes, chaperonsAgo, podsAgo int) *process {
	p := w.newProcess(k.name+"'s manager", k.cluster)
	p.backs = k.backs
	chaperons := p.cache("cache of PodChaperons", view{k.cluster, kindChaperon, chaperonsAgo}, everything)
	pods := p.cache("cache of pods", view{k.cluster, kindPod, podsAgo}, everything)
	l := &link{process: p, to: k.cluster, caches: caches{kindChaperon: chaperons, kindPod: pods}}
	reconciler := chaperon.New(l, live{link: l}, k.clock(), silent{}, "")
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

// attempt is what is known of the placement of a pod.
type attempt struct {
	running bool
	// woken says that the pod got news during the attempt, so that the next one does not wait.
	woken bool
	next  time.Time
}

// startSource starts the manager of the source. Each API server's cache lacks so many changes, if there were so many.
func (w *world) startSource(ago int) *source {
	p := w.newProcess("the source's manager", w.source)
	s := &source{
		process: p, world: w, registry: engage.NewRegistry(), engaged: map[*kubernetes]*engagement{},
		attempts: map[types.UID]*attempt{},
	}
	s.pods = p.cache("cache of pods", lagged(w.source, kindPod, w.unlessOldLists(ago)), everything)
	s.proxies = p.cache("scheduler's cache", lagged(w.source, kindPod, unlessPresent(ago)), func(o client.Object) bool {
		return !finished(statusOf(o).Phase)
	})
	s.link = &link{process: p, to: w.source, caches: caches{kindPod: s.pods}}
	s.feedback = feedback.New(feedback.Options{
		Client: s.link, Proxies: podcache.NewByNode(s.link, nil),
		APIReader: live{link: s.link}, Source: translate.Source{ClusterID: sourceID},
		Keys:  func() (*proof.Keys, error) { return keys, nil },
		Clock: clock.RealClock{}, Recorder: silent{}, Logger: logr.Discard(),
		PlacedBeside: s.placedBeside,
	})
	s.placer = placement.New(placement.Options{
		Source: translate.Source{ClusterID: sourceID}, Timeout: placementTimeout, Clock: clock.RealClock{},
		Sign:   func(claim proof.Claim) (string, error) { return keys.Sign(claim), nil },
		Ensure: func(context.Context, *corev1.Pod, *engage.Target) error { return nil },
	})
	s.watchPods()
	for _, k := range w.targets {
		if k.cut || k.unaccepted() {
			w.excuseUnbound(k, s.proxies)
		} else {
			s.engage(k, ago)
		}
	}
	return s
}

// placedBeside does what the scheduler does.
func (s *source) placedBeside(proxy types.UID, nodeName string) *engage.Target {
	if t := s.placer.Delegates.Beside(proxy, nodeName); t != nil {
		return t.Target
	}
	return nil
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
				if pod.Spec.NodeName != "" {
					s.placer.Delegates.Released(pod)
				}
				s.placer.Delegates.Concluded(pod.UID, placement.ProxyGone)
			}
		},
	})
}

// lag is how long a cache has not had a change, or a worker has not taken a key.
func (s *source) lag() time.Duration {
	if !s.acts() {
		return 0
	}
	var lag time.Duration
	for _, l := range s.caches {
		if l.ctx.Err() == nil && s.watches(l) {
			lag = max(lag, l.lag())
		}
	}
	for _, q := range s.queues {
		if q.ctx.Err() == nil && (q.target == nil || q.target.Reachable()) {
			lag = max(lag, q.lag())
		}
	}
	return lag
}

// watches says whether a cache is of the source, or of a target that is not lost.
func (s *source) watches(l *lagging) bool {
	for k, e := range s.engaged {
		if k.cluster == l.from {
			return e.target.Reachable()
		}
	}
	return true
}

func (s *source) wake(proxy types.UID) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	if a := s.attempts[proxy]; a != nil {
		a.woken, a.next = a.running, time.Time{}
	}
}

// backsOff says whether a pod waits for its next attempt.
func (s *source) backsOff() bool {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	for _, a := range s.attempts {
		if !a.running && a.next.After(time.Now()) {
			return true
		}
	}
	return false
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
			s.begin(pod.UID)
			s.world.start(s.name+" places", func() { s.attempt(pod, e) })
		}, "the source's scheduler"})
	}
	return all
}

func (s *source) begin(proxy types.UID) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.attempts[proxy] = &attempt{running: true}
}

// failed plans the next attempt. What wakes the pod may also end the attempt: either may come first.
func (s *source) failed(proxy types.UID) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	a := s.attempts[proxy]
	a.running = false
	if !a.woken {
		a.next = time.Now().Add(time.Second)
	}
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
	_, err := s.placer.Place(s.ctx, pod, e.target, placement.Expectation{
		Growth: true, Waiting: func(placement.Wait, string) {}, Engaged: s.all(),
	})
	if err == nil {
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		err = s.link.bind(ctx, pod, e.target.NodeName)
	}
	if err != nil {
		s.failed(pod.UID)
	}
}

// all returns the engaged targets.
func (s *source) all() []*placement.Target {
	var all []*placement.Target
	for _, k := range s.world.targets {
		if e := s.engaged[k]; e != nil {
			all = append(all, e.target)
		}
	}
	return all
}
