package scheduling

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/fit"
)

const (
	// keepAfter is how long a pod fits nowhere until a target keeps its room for it, and keepFor how long the target
	// does so at most.
	keepAfter, keepFor = 2 * time.Minute, 2 * time.Minute
	// keepPatience is how long the target does so although it comes no nearer to what the pod requests.
	keepPatience = 30 * time.Second
	// vainPause is how long no target keeps its room for a pod for which one has just done so in vain. It doubles each
	// time.
	vainPause = 30 * time.Second
	// keepPauses is how many times as long a target takes all pods before it keeps its room again.
	keepPauses = 5
)

// keeping are the targets that keep their room for a big pod. Small pods take each bit of room that is released, so a
// bigger one, which needs much at a time, might never fit. It is safe for concurrent use.
type keeping struct {
	clock clock.WithDelayedExecution

	mu sync.Mutex // guards the fields below
	// unfit are the pods that fit nowhere.
	unfit map[types.UID]*unfit
	// byNode are the targets, by their nodes, that got a pod, or kept their room.
	byNode map[string]*keeper
}

// unfit is a pod that fits nowhere.
type unfit struct {
	since time.Time
	// look has the pod scheduled again, and due is when.
	look clock.Timer
	due  time.Time
	// vain is how often a target kept its room for the pod in vain, and pauses until when none does so again.
	vain   int
	pauses time.Time
}

// keeper is a target's part.
type keeper struct {
	// last is the pod that was given to the target last.
	last taker
	// kept is the pod for which the target keeps its room, or nil, and since when.
	kept  *corev1.Pod
	since time.Time
	// pauses is until when the target takes all pods.
	pauses time.Time
}

// taker is a pod that took room.
type taker struct {
	at       time.Time
	created  metav1.Time
	priority int32
	demand   *fit.Demand
}

func newKeeping(c clock.WithDelayedExecution) *keeping {
	return &keeping{clock: c, unfit: map[types.UID]*unfit{}, byNode: map[string]*keeper{}}
}

// fitsNowhere notes that a pod fits nowhere, and returns since when.
func (k *keeping) fitsNowhere(pod types.UID) (since time.Time, first bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.unfit[pod]; known != nil {
		return known.since, false
	}
	since = k.clock.Now()
	k.unfit[pod] = &unfit{since: since}
	return since, true
}

// lookAgain calls look when a target may keep its room for a pod that fits nowhere, unless that is going to happen
// already. So a pod has one timer, however often it is scheduled.
func (k *keeping) lookAgain(pod types.UID, look func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if known := k.unfit[pod]; known != nil && !known.due.After(now) {
		known.look, known.due = k.clock.AfterFunc(keepAfter, look), now.Add(keepAfter)
	}
}

// takes notes that a target gets a pod.
func (k *keeping) takes(nodeName string, pod *corev1.Pod, demand *fit.Demand) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keeper(nodeName).last = taker{k.clock.Now(), pod.CreationTimestamp, corev1helpers.PodPriority(pod), demand}
}

// keeper must be called with the lock held.
func (k *keeping) keeper(nodeName string) *keeper {
	if k.byNode[nodeName] == nil {
		k.byNode[nodeName] = &keeper{}
	}
	return k.byNode[nodeName]
}

// forOther says whether a target keeps its room for a pod that is older than this one, and not less important.
func (k *keeping) forOther(nodeName string, pod *corev1.Pod) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.byNode[nodeName]
	return at != nil && at.kept != nil && at.kept.CreationTimestamp.Before(&pod.CreationTimestamp) &&
		corev1helpers.PodPriority(pod) <= corev1helpers.PodPriority(at.kept)
}

// overtook says whether a target was given a smaller, younger pod while this one, which is not less important, fitted
// nowhere. Pods that ask for the same take turns by themselves, the oldest first.
func (t taker) overtook(pod *corev1.Pod, demand *fit.Demand, since time.Time) bool {
	return t.demand != nil && t.at.After(since) && pod.CreationTimestamp.Before(&t.created) &&
		t.priority <= corev1helpers.PodPriority(pod) && !t.demand.AtLeast(demand)
}

// keep has one of these targets keep its room for a pod that has fit nowhere since then, and returns that target. At
// most half of all targets do so at a time. The result later says that one may do so some time later.
func (k *keeping) keep(
	pod *corev1.Pod, demand *fit.Demand, since time.Time, of []*target, all int,
) (keeps *target, later bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now, kept := k.clock.Now(), 0
	if known := k.unfit[pod.UID]; known != nil && known.pauses.After(now) {
		return nil, true
	}
	for _, at := range k.byNode {
		if at.kept != nil {
			kept++
		}
		if at.kept != nil && at.kept.UID == pod.UID {
			return nil, true
		}
	}
	for _, t := range of {
		at := k.keeper(t.NodeName)
		if !at.last.overtook(pod, demand, since) {
			continue
		}
		later = true
		free := at.kept == nil && !at.pauses.After(now) && kept < max(1, all/2)
		if free && (keeps == nil || cmp.Or(at.pauses.Compare(k.byNode[keeps.NodeName].pauses),
			cmp.Compare(t.NodeName, keeps.NodeName)) < 0) {
			keeps = t
		}
	}
	if keeps != nil {
		at := k.byNode[keeps.NodeName]
		at.kept, at.since = pod, now
	}
	return keeps, later
}

// release has the target that keeps its room for a pod take all pods again. It returns the target's node, or "".
func (k *keeping) release(pod types.UID) (nodeName string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, at := range k.byNode {
		if at.kept != nil && at.kept.UID == pod {
			now := k.clock.Now()
			at.kept, at.pauses = nil, now.Add(keepPauses*now.Sub(at.since))
			return name
		}
	}
	return ""
}

// inVain notes that a target kept its room for a pod in vain. The pod's pause doubles each time.
func (k *keeping) inVain(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.unfit[pod]; known != nil {
		known.pauses = k.clock.Now().Add(vainPause << min(known.vain, 6))
		known.vain++
	}
}

// keepsFor says whether the target with this node keeps its room for the pod.
func (k *keeping) keepsFor(nodeName string, pod types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := k.byNode[nodeName]
	return at != nil && at.kept != nil && at.kept.UID == pod
}

func (k *keeping) forget(pod types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := k.unfit[pod]; known != nil && known.look != nil {
		known.look.Stop()
	}
	delete(k.unfit, pod)
}

// fitsNowhere has a target keep its room for a pod that fits nowhere, if that is due. Otherwise it looks later. Only a
// target counts to which all other plugins agreed, and a pod that was compared with targets at all.
func (p *plugin) fitsNowhere(ctx context.Context, c *cycle, pod *corev1.Pod) {
	c.mu.Lock()
	compared := maps.Clone(c.objections)
	c.mu.Unlock()
	if len(compared) == 0 {
		return
	}
	since, first := p.keeping.fitsNowhere(pod.UID)
	if first {
		p.lookAgain(pod)
	}
	if first || p.clock.Since(since) < keepAfter {
		return
	}
	var could []*target
	all := p.targets.all()
	for _, other := range all {
		t := p.targets.get(other.NodeName)
		if t != nil && compared[t.NodeName] != "" && p.objection(c, pod, t) == "" &&
			t.Ledger.Room().CouldHold(c.Demand) {
			could = append(could, t)
		}
	}
	keeps, later := p.keeping.keep(pod, c.Demand, since, could, len(all))
	if keeps != nil {
		log.FromContext(ctx).Info("A target keeps its room for a pod that has waited long", "target", keeps.Name(),
			"pod", client.ObjectKeyFromObject(pod), "atMost", keepFor)
		p.lookAfter(pod.UID, keeps, c.Demand, p.clock.Now().Add(keepFor))
	}
	if later {
		p.lookAgain(pod)
	}
}

// lookAfter has a target that keeps its room for a pod take all pods again when its time is over. So it does when the
// target has come no nearer to what the pod requests for a while: nothing ends there.
func (p *plugin) lookAfter(pod types.UID, t *target, demand *fit.Demand, until time.Time) {
	had := t.Ledger.Room().Part(demand)
	p.keeping.clock.AfterFunc(keepPatience, func() {
		switch {
		case !p.keeping.keepsFor(t.NodeName, pod):
		case t.Ledger.Room().Part(demand) > had && p.clock.Now().Before(until):
			p.lookAfter(pod, t, demand, until)
		default:
			p.keeping.inVain(pod)
			p.released(pod)
		}
	})
}

// lookAgain has the pod scheduled again when a target may keep its room for it.
func (p *plugin) lookAgain(pod *corev1.Pod) {
	key, uid := client.ObjectKeyFromObject(pod), pod.UID
	p.keeping.lookAgain(uid, func() { p.waker.pod(key, uid) })
}

// released wakes the pods for which a target did not keep its room.
func (p *plugin) released(pod types.UID) {
	if t := p.targets.get(p.keeping.release(pod)); t != nil {
		p.waker.targetSoon(t)
	}
}

// concluded forgets a pod that is bound or gone.
func (p *plugin) concluded(pod types.UID) {
	p.attempts.Forget(pod)
	p.keeping.forget(pod)
	p.released(pod)
}
