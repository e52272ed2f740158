package main

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/gate"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// sampleInterval is how often the simulation looks who waits, and where there is room.
	sampleInterval = 5 * time.Second
	// tooLong is how long a pod may wait although one target has room for it.
	tooLong = time.Minute
	// starving is how long a pod waits at least that counts as starved, if others of its kind overtake it.
	starving = 5 * time.Minute
)

// observed is what became of one pod.
type observed struct {
	*arrival

	created, placed time.Time // placed is zero while it waits
	node            string
	attempts        int
	// holder is the target that has the PodChaperon.
	holder *target
	// roomSince is since when the targets have had room for the pod, at each sample.
	roomSince map[*target]time.Time
	// waited says that the pod waited for too long although a target had room: while no target had its delegate, or
	// while another one held the delegate back.
	waited, held bool
	// preempted says that it has ended for another pod.
	preempted bool
	delegate  *corev1.Pod
}

// observer notes what becomes of pods.
type observer struct {
	mu     sync.Mutex // guards the fields below and all in them
	byName map[string]*observed
	byUID  map[types.UID]*observed
	// taken are the targets that got a pod of a kind since the last sample.
	taken map[taken]bool
}

type taken struct {
	target *target
	kind   string
}

func newObserver() *observer {
	return &observer{byName: map[string]*observed{}, byUID: map[types.UID]*observed{}, taken: map[taken]bool{}}
}

// expect must be called before the pod is created.
func (ob *observer) expect(a *arrival) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	ob.byName[a.pod.Name] = &observed{arrival: a, created: time.Now(), roomSince: map[*target]time.Time{}}
}

// follow notes when the pods of a store get their nodes.
func (ob *observer) follow(s *store) {
	s.watch(func(c change) {
		pod, ok := c.after.(*corev1.Pod)
		if !ok {
			return
		}
		ob.mu.Lock()
		defer ob.mu.Unlock()
		o := ob.byName[pod.Name]
		if o == nil {
			return
		}
		if c.before == nil {
			ob.byUID[pod.UID] = o
		}
		if pod.Spec.NodeName != "" && o.placed.IsZero() {
			o.placed, o.node = time.Now(), pod.Spec.NodeName
		}
	})
}

// followTarget notes which target has the PodChaperon of a pod, and how many there were.
func (ob *observer) followTarget(t *target) {
	t.watch(func(c change) {
		ob.mu.Lock()
		defer ob.mu.Unlock()
		switch object := c.object().(type) {
		case *v1alpha1.PodChaperon:
			ob.chaperonChanged(t, c, ob.byUID[gate.ParentOf(object).UID])
		case *corev1.Pod:
			was, _ := c.before.(*corev1.Pod)
			o := ob.byUID[types.UID(object.Labels[v1alpha1.LabelParentUID])]
			if o != nil && was != nil && was.Spec.NodeName == "" && object.Spec.NodeName != "" {
				ob.taken[taken{t, o.kind}] = true
			}
		}
	})
}

// chaperonChanged must be called with the lock held.
func (*observer) chaperonChanged(t *target, c change, o *observed) {
	switch {
	case o == nil:
	case c.before == nil:
		o.holder = t
		o.attempts++
	case c.after == nil && o.holder == t:
		o.holder = nil
	}
}

// waiting returns the pods that are not placed, and forgets which targets were taken.
func (ob *observer) waiting() ([]*observed, map[taken]bool) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	var waiting []*observed
	for _, o := range ob.byName {
		if o.placed.IsZero() {
			waiting = append(waiting, o)
		}
	}
	since := ob.taken
	ob.taken = map[taken]bool{}
	return waiting, since
}

// sample looks which targets have room for the pods that wait.
func (ob *observer) sample(ctx context.Context, targets []*target) {
	waiting, since := ob.waiting()
	gangs := ob.gangs()
	rooms := map[string][]*target{}
	for _, o := range waiting {
		room, known := rooms[o.kind]
		if !known {
			for _, t := range targets {
				if t.fits(ctx, o.asDelegate()) && !since[taken{t, o.kind}] {
					room = append(room, t)
				}
			}
			rooms[o.kind] = room
		}
		if own := gangs[o.gang]; o.gang != "" && own != nil {
			room = slices.DeleteFunc(slices.Clone(room), func(t *target) bool { return t != own })
		}
		ob.note(o, room)
	}
}

// note notes where there is room for a pod that waits.
func (ob *observer) note(o *observed, room []*target) {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	now := time.Now()
	for t := range o.roomSince {
		if !slices.Contains(room, t) {
			delete(o.roomSince, t)
		}
	}
	for _, t := range room {
		since, known := o.roomSince[t]
		switch {
		case !known:
			o.roomSince[t] = now
		case now.Sub(since) >= tooLong && o.holder == nil:
			o.waited = true
		case now.Sub(since) >= tooLong:
			o.held = true
		}
	}
}

// gangs returns where gangs have begun to be placed.
func (ob *observer) gangs() map[string]*target {
	ob.mu.Lock()
	defer ob.mu.Unlock()
	begun := map[string]*target{}
	for _, o := range ob.byName {
		if o.gang != "" && o.holder != nil {
			begun[o.gang] = o.holder
		}
	}
	return begun
}

// asDelegate returns the delegate of the pod.
func (o *observed) asDelegate() *corev1.Pod {
	if o.delegate == nil {
		proxy, err := translate.Proxy(o.pod)
		if err != nil {
			panic(err)
		}
		chaperon, err := translate.Chaperon(proxy, translate.Source{ClusterID: clusterID}, translate.Destination{})
		if err != nil {
			panic(err)
		}
		o.delegate = translate.Delegate(chaperon)
		setPriority(o.delegate)
	}
	return o.delegate
}

// fits says whether a delegate would get a node of the target now, if the source placed it there.
func (t *target) fits(ctx context.Context, delegate *corev1.Pod) bool {
	return t.holds.room(delegate) && t.kube.fits(ctx, delegate)
}

// usage returns the share of CPUs that pods take in each cluster: those of the nodes that are there.
func usage(clusters []*cluster, stores ...*store) []float64 {
	all, used := map[string]int64{}, map[string]int64{}
	for _, s := range stores {
		ofNode := map[string]string{}
		objects := s.all()
		for _, o := range objects {
			if n, ok := o.(*corev1.Node); ok {
				ofNode[n.Name] = n.Labels[ofCluster]
				all[n.Labels[ofCluster]] += n.Status.Allocatable.Cpu().MilliValue()
			}
		}
		for _, o := range objects {
			if pod, ok := o.(*corev1.Pod); ok && onNode(pod) {
				used[ofNode[pod.Spec.NodeName]] += cpusOf(pod)
			}
		}
	}
	shares := make([]float64, len(clusters))
	for i, c := range clusters {
		shares[i] = float64(used[c.name]) / float64(all[c.name])
	}
	return shares
}

// all returns all objects.
func (s *store) all() []client.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := make([]client.Object, 0, len(s.objects))
	for _, o := range s.objects {
		objects = append(objects, o)
	}
	return objects
}
