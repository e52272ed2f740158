package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

const (
	// cycleTime is how long a kube-scheduler takes for a pod: it places 200 pods per second.
	cycleTime = 5 * time.Millisecond
	// firstBackoff and lastBackoff are kube-scheduler's.
	firstBackoff, lastBackoff = time.Second, 10 * time.Second
)

// kube is the kube-scheduler of a cluster: the plugins of the default profile that are about nodes, over a snapshot of
// kube-scheduler's own cache. Pods that do not fit wait as in kube-scheduler's queue.
type kube struct {
	store  *store
	random *rand.Rand // for equal scores. Only the goroutine of run uses it.
	news   chan struct{}
	logger klog.Logger

	mu         sync.Mutex // guards the fields below
	cache      schedulercache.Cache
	snapshot   *schedulercache.Snapshot
	framework  framework.Framework
	preemption *defaultpreemption.DefaultPreemption
	nominated  nominations
	queue      []*corev1.Pod
	parked     map[types.UID]*parked
	next       int       // the node to begin with
	taken      types.UID // the pod that is being scheduled, unless it is gone
}

// parked is a pod that fits nowhere.
type parked struct {
	pod   *corev1.Pod
	tries int
	until time.Time // when its back-off ends
	woken bool      // something has changed that may help
}

// newKube starts the scheduler of a cluster, which runs until ctx ends.
func newKube(ctx context.Context, s *store, seed uint64) (*kube, error) {
	k := &kube{
		store: s, random: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // repeatable
		news: make(chan struct{}, 1), logger: klog.Background(),
		cache: schedulercache.New(ctx, nil, false, false), snapshot: schedulercache.NewEmptySnapshot(),
		parked: map[types.UID]*parked{}, nominated: nominations{},
	}
	profile, err := defaultProfile()
	if err != nil {
		return nil, err
	}
	clients := kubernetes.New(nil) // Nothing is asked: no plugin needs more than nodes and pods.
	k.framework, err = frameworkruntime.NewFramework(ctx, plugins.NewInTreeRegistry(), profile,
		frameworkruntime.WithSnapshotSharedLister(k.snapshot), frameworkruntime.WithMutableSnapshotLister(k.snapshot),
		frameworkruntime.WithPodNominator(k.nominated), frameworkruntime.WithClientSet(clients),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(clients, 0)),
		frameworkruntime.WithParallelism(1))
	if err != nil {
		return nil, fmt.Errorf("making the scheduler of %s: %w", s.name, err)
	}
	if k.preemption, err = newPreemption(ctx, profile, k.framework); err != nil {
		return nil, fmt.Errorf("making the preemption of %s: %w", s.name, err)
	}
	s.watch(k.changed)
	go k.run(ctx)
	return k, nil
}

// defaultProfile has the plugins of the default profile that decide by nodes and pods alone, with their weights.
func defaultProfile() (*config.KubeSchedulerProfile, error) {
	defaults, err := latest.Default()
	if err != nil {
		return nil, fmt.Errorf("making the default configuration: %w", err)
	}
	profile := &defaults.Profiles[0]
	left := []string{
		names.PrioritySort, names.DefaultBinder, names.SchedulingGates, names.NodeUnschedulable, names.NodeName,
		names.TaintToleration, names.NodeAffinity, names.NodePorts, names.NodeResourcesFit, names.PodTopologySpread,
		names.InterPodAffinity, names.NodeResourcesBalancedAllocation, names.ImageLocality,
	}
	enabled := slices.DeleteFunc(slices.Clone(profile.Plugins.MultiPoint.Enabled), func(p config.Plugin) bool {
		return !slices.Contains(left, p.Name)
	})
	profile.Plugins = &config.Plugins{MultiPoint: config.PluginSet{Enabled: enabled}}
	return profile, nil
}

// changed is called by the store, whose lock it holds.
func (k *kube) changed(c change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch o := c.object().(type) {
	case *corev1.Node:
		k.cache.AddNode(k.logger, o)
		k.wake()
	case *corev1.Pod:
		before, _ := c.before.(*corev1.Pod)
		after, _ := c.after.(*corev1.Pod)
		k.podChanged(before, after)
	}
}

// podChanged must be called with the lock held.
func (k *kube) podChanged(before, after *corev1.Pod) {
	k.account(before, after)
	if after == nil || after.Spec.NodeName != "" {
		if before != nil {
			k.forget(before.UID)
		}
		return
	}
	gated := len(after.Spec.SchedulingGates) > 0
	if !gated && (before == nil || len(before.Spec.SchedulingGates) > 0) {
		k.queue = append(k.queue, after)
		notify(k.news)
	}
}

// account notes what a pod takes of its node. It must be called with the lock held.
func (k *kube) account(before, after *corev1.Pod) {
	was, is := before != nil && onNode(before), after != nil && onNode(after)
	switch {
	case is && !was:
		k.must(k.cache.AddPod(k.logger, after))
	case is && before.DeletionTimestamp == nil && after.DeletionTimestamp != nil:
		k.must(k.cache.UpdatePod(k.logger, before, after))
	case was && !is:
		k.must(k.cache.RemovePod(k.logger, before))
		k.wake()
	}
}

// forget forgets a pod that needs no node any more. It must be called with the lock held.
func (k *kube) forget(uid types.UID) {
	k.queue = slices.DeleteFunc(k.queue, func(p *corev1.Pod) bool { return p.UID == uid })
	delete(k.parked, uid)
	if k.taken == uid {
		k.taken = ""
	}
	if _, waited := k.nominated[uid]; waited {
		delete(k.nominated, uid)
		k.wake() // The node was kept for it.
	}
}

func (k *kube) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("%s: %v", k.store.name, err))
	}
}

// onNode says whether a pod takes room of a node.
func onNode(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && !finished(pod) }

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// wake has parked pods tried again when their back-offs end. It must be called with the lock held.
func (k *kube) wake() {
	for _, p := range k.parked {
		p.woken = true
	}
	notify(k.news)
}

// run schedules one pod after the other.
func (k *kube) run(ctx context.Context) {
	for ctx.Err() == nil {
		pod, wait := k.take()
		if pod != nil {
			k.schedule(ctx, pod)
			pause(ctx, cycleTime)
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-k.news:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// take returns the next pod, or how long there is none.
func (k *kube) take() (*corev1.Pod, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wait, now := time.Hour, time.Now()
	for _, p := range k.parked {
		switch left := p.until.Sub(now); {
		case p.woken && left <= 0:
			p.woken = false
			k.queue = append(k.queue, p.pod)
		case p.woken:
			wait = min(wait, left)
		}
	}
	if len(k.queue) == 0 {
		return nil, wait
	}
	first := 0
	for i, pod := range k.queue {
		if compare(pod, k.queue[first]) < 0 {
			first = i
		}
	}
	pod := k.queue[first]
	k.queue = slices.Delete(k.queue, first, first+1)
	k.taken = pod.UID
	return pod, 0
}

// compare puts the most important pod first, and then the oldest.
func compare(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
	)
}

func (k *kube) schedule(ctx context.Context, pod *corev1.Pod) {
	k.mu.Lock()
	if k.taken != pod.UID { // It is gone since.
		k.mu.Unlock()
		return
	}
	node, instead := k.choose(ctx, pod)
	if node == "" {
		k.park(pod)
	} else {
		delete(k.parked, pod.UID)
	}
	waitsFor := k.nominated[pod.UID].node
	k.mu.Unlock()
	pending := false
	_, _ = k.store.update(refOf(pod), func(o client.Object) bool {
		now, ok := o.(*corev1.Pod)
		if pending = ok && now.UID == pod.UID && now.Spec.NodeName == ""; !pending {
			return false
		}
		if node != "" {
			return bindTo(now, node)
		}
		return fitsNowhere(now, waitsFor)
	})
	if pending && instead != nil {
		for _, victim := range instead.victims {
			k.end(victim)
		}
	}
}

// fitsNowhere shows that no node fits, and which one others leave for the pod. It returns false if that shows already.
func fitsNowhere(pod *corev1.Pod, waitsFor string) (changed bool) {
	if changed = pod.Status.NominatedNodeName != waitsFor; changed {
		pod.Status.NominatedNodeName = waitsFor
	}
	if translate.PodCondition(pod.Status.Conditions, corev1.PodScheduled) != nil {
		return changed
	}
	setScheduled(pod, corev1.PodCondition{
		Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no node fits",
	})
	return true
}

// park must be called with the lock held.
func (k *kube) park(pod *corev1.Pod) {
	p, ok := k.parked[pod.UID]
	if !ok {
		p = &parked{pod: pod}
		k.parked[pod.UID] = p
	}
	p.until = time.Now().Add(min(firstBackoff<<min(p.tries, 10), lastBackoff))
	p.tries++
}

// choose returns the best node for the pod, or else what is to end for it, or nothing. It must be called with the lock
// held.
func (k *kube) choose(ctx context.Context, pod *corev1.Pod) (string, *preemption) {
	state := framework.NewCycleState()
	feasible, rejected := k.feasible(ctx, state, pod, k.wanted())
	switch {
	case rejected:
		return "", nil
	case len(feasible) == 0:
		return "", k.preempt(ctx, state, pod)
	case len(feasible) == 1:
		return feasible[0].Node().Name, nil
	}
	if status := k.framework.RunPreScorePlugins(ctx, state, pod, feasible); !status.IsSuccess() {
		panic(status.AsError())
	}
	scores, status := k.framework.RunScorePlugins(ctx, state, pod, feasible)
	if !status.IsSuccess() {
		panic(status.AsError())
	}
	best, equal := 0, 1
	for i := range scores {
		switch {
		case scores[i].TotalScore > scores[best].TotalScore:
			best, equal = i, 1
		case i > 0 && scores[i].TotalScore == scores[best].TotalScore:
			if equal++; k.random.IntN(equal) == 0 {
				best = i
			}
		}
	}
	return scores[best].Name, nil
}

// wanted is how many feasible nodes kube-scheduler looks for.
func (k *kube) wanted() int {
	all := k.cache.NodeCount()
	if all < 100 {
		return all
	}
	return max(100, all*max(5, 50-all/125)/100)
}

// feasible returns so many nodes at most that the pod fits on. rejected says that a plugin does not even look at nodes
// for the pod. It must be called with the lock held.
func (k *kube) feasible(
	ctx context.Context, state fwk.CycleState, pod *corev1.Pod, most int,
) (found []fwk.NodeInfo, rejected bool) {
	k.must(k.cache.UpdateSnapshot(k.logger, k.snapshot))
	result, status, _ := k.framework.RunPreFilterPlugins(ctx, state, pod)
	if !status.IsSuccess() {
		return nil, true
	}
	nodes, err := k.snapshot.NodeInfos().List()
	k.must(err)
	looked := 0
	for ; looked < len(nodes) && len(found) < most; looked++ {
		node := nodes[(k.next+looked)%len(nodes)]
		if !result.AllNodes() && !result.NodeNames.Has(node.Node().Name) {
			continue
		}
		if k.framework.RunFilterPluginsWithNominatedPods(ctx, state, pod, node).IsSuccess() {
			found = append(found, node)
		}
	}
	if len(nodes) > 0 {
		k.next = (k.next + looked) % len(nodes)
	}
	return found, false
}

// fits says whether a pod would get a node now, also by the end of others.
func (k *kube) fits(ctx context.Context, pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	state := framework.NewCycleState()
	feasible, rejected := k.feasible(ctx, state, pod, 1)
	return !rejected && (len(feasible) > 0 || k.candidate(ctx, state, pod) != nil)
}
