package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/scheduling/placement"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/timeouts"
)

// setBacks are the times that a target was set back to a backup.
type setBacks struct {
	// backs is how often it was set back, and accepted is how often it had been when somebody accepted it last.
	backs, accepted int
	// lacking are the proxies whose PodChaperons, or their decisions, are in no backup. They may go when the target is
	// accepted.
	lacking []types.UID
	// ended are the ends of containers that run again.
	ended map[ended]bool
}

// ended is the end of a container of a proxy's delegate.
type ended struct {
	proxy types.UID
	code  int32
}

// unaccepted says whether the target was set back and nobody has accepted that.
func (b *setBacks) unaccepted() bool { return b.backs != b.accepted }

// errTurnedBack is the error of a source that knows a later state of the target.
var errTurnedBack = errors.New("the target was set back")

// confirm is what package hold does: it reads the Lease in the target.
func (l *link) confirm(ctx context.Context, k *kubernetes, e *engagement) error {
	_, err := l.do(ctx, "get", &coordinationv1.Lease{}, leaseKey, func() (client.Object, error) {
		if e.backs != k.backs {
			return nil, errTurnedBack
		}
		return nil, nil //nolint:nilnil // Nobody reads the Lease.
	})
	return err
}

// backups are targets that are set back, and what follows: their managers, and the source by its Lease, notice that,
// and somebody accepts the target.
func (w *world) backups() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label: label, do: do}) }
	for i, k := range w.targets {
		for _, by := range []int{2, 5, 12, 40} {
			if by < k.version {
				add(fmt.Sprintf("%s is set back by %d changes", k.name, by), func() { w.setBack(k, by) })
			}
		}
		if w.unawareManager(i) {
			add(k.name+"'s manager notices that it was set back", func() { w.renewManager(i) })
		}
		if w.unawareSource(k) {
			add("the source notices that "+k.name+" was set back", func() { w.manager.disengage(k) })
		}
		if e := w.manager.engaged[k]; k.unaccepted() && (e == nil || !e.target.Reachable()) {
			add("somebody accepts "+k.name+" as it is", func() { w.accept(k) })
		}
	}
	return all
}

// listsOfThePast are those of the source's caches whose targets were set back: their API servers do not know the
// versions from which the source watches.
func (w *world) listsOfThePast() []action {
	var all []action
	for _, k := range w.targets {
		if e := w.manager.engaged[k]; w.unawareSource(k) && e.listed != k.backs {
			all = append(all, action{e.cached.name + " lists the past", func() {
				e.listed = k.backs
				e.cached.relist()
			}, e.cached.name})
		}
	}
	return all
}

func (w *world) unawareManager(i int) bool {
	p := w.managers[i]
	return p.alive() && !p.frozen && p.backs != w.targets[i].backs
}

// renewManager begins the manager of a target anew: its caches are of another time.
func (w *world) renewManager(i int) {
	w.managers[i].crash(errCrash)
	w.managers[i] = w.startTarget(w.targets[i], 0, 0)
}

func (w *world) unawareSource(k *kubernetes) bool {
	e := w.manager.engaged[k]
	return w.manager.acts() && !k.cut && e != nil && e.target.Reachable() && e.backs != k.backs
}

// noticeSetBacks has managers look at their Leases, as they do while time passes.
func (w *world) noticeSetBacks(while time.Duration) {
	for i, k := range w.targets {
		if while >= timeouts.LeaseRetry && w.unawareManager(i) {
			w.renewManager(i)
		}
		if while >= timeouts.HoldRenewal && w.unawareSource(k) {
			w.manager.disengage(k)
		}
	}
}

// disengage ends the engagement of a target that was set back. Writes to it that are under way end, too.
func (s *source) disengage(k *kubernetes) {
	e := s.engaged[k]
	s.world.excuseUnbound(k, s.proxies)
	s.registry.Lose(e.target.Target)
	s.placer.Delegates.NotifyTarget(e.target.Target)
	e.end()
	delete(s.engaged, k)
	for _, c := range s.world.underWay() {
		if c.by == s.process && c.to == k.cluster && c.verb != "get" {
			s.world.abandon(c)
		}
	}
}

// accept notes that somebody accepts a target as it is. The proxies that lack their PodChaperons may go then.
func (w *world) accept(k *kubernetes) {
	for _, proxy := range k.lacking {
		w.facts.mayGo[proxy] = true
	}
	k.accepted, k.lacking = k.backs, nil
}

// setBack restores a target from a backup that lacks so many changes.
func (w *world) setBack(k *kubernetes, by int) {
	before := k.objects
	k.restore(k.version - by)
	k.backs++
	for r, was := range before {
		if now := k.objects[r]; now == nil || now.GetUID() != was.GetUID() {
			w.facts.unwatched[was.GetUID()] = true // Its containers end when the kubelet notices.
			w.noteLacking(k, was)
		}
	}
	for r, now := range k.objects {
		if was := before[r]; was == nil || was.GetUID() != now.GetUID() || ends(was) && !ends(now) {
			w.facts.unwatched[now.GetUID()] = true // It runs again until the target is accepted.
		}
		if pod := asPod(now); pod != nil {
			k.abandon(pod)
			w.runAgain(k, pod)
		}
		if was, ok := before[r].(*v1alpha1.PodChaperon); ok && w.beingPlaced(was, now) {
			k.lacking = append(k.lacking, parentOf(was))
		}
	}
	for _, once := range []map[types.UID]bool{w.facts.ran, w.facts.done} {
		maps.DeleteFunc(once, func(uid types.UID, _ bool) bool { return strings.HasPrefix(string(uid), k.name+"/") })
	}
}

// noteLacking notes which proxy may go because the target lacks an object that was there before the target was set
// back. A delegate whose PodChaperon is there is lost at once.
func (w *world) noteLacking(k *kubernetes, was client.Object) {
	if kindOf(was) == kindChaperon {
		k.lacking = append(k.lacking, parentOf(was))
		return
	}
	for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
		if chaperon.UID == w.facts.delegates[was.GetUID()].chaperon {
			w.facts.mayGo[parentOf(was)] = true
		}
	}
}

// beingPlaced says whether a proxy was not bound when its target was set back, or is not bound as far as the backup
// shows. Its delegate is that of the past, or there is none, and the source cannot know this when it binds the proxy.
func (w *world) beingPlaced(was *v1alpha1.PodChaperon, now client.Object) bool {
	for _, proxy := range list[*corev1.Pod](w.source) {
		if proxy.UID == parentOf(was) && proxy.Spec.NodeName == "" {
			return true
		}
	}
	is, ok := now.(*v1alpha1.PodChaperon)
	return ok && placement.Scheduled(was) && !placement.Scheduled(is)
}

// abandon makes a container that runs, of a pod that has no node any more, one that no pod has. The kubelet ends it.
func (k *kubernetes) abandon(pod *corev1.Pod) {
	c := k.containers[pod.UID]
	if c == nil || !c.running || pod.Spec.NodeName != "" {
		return
	}
	delete(k.containers, pod.UID)
	c.pod = c.pod.DeepCopy()
	c.pod.UID = types.UID(fmt.Sprintf("%s/abandoned %d", pod.UID, k.backs))
	k.containers[c.pod.UID] = c
}

// ends says whether a PodChaperon is to end, or its delegate has ended, or whether a delegate ends or has ended.
func ends(o client.Object) bool {
	switch o := o.(type) {
	case *v1alpha1.PodChaperon:
		return o.DeletionTimestamp != nil || ending.Begun(o) || finished(o.Status.Phase)
	case *corev1.Pod:
		return o.DeletionTimestamp != nil || finished(o.Status.Phase)
	default:
		return false
	}
}

// runAgain has the kubelet start the containers of a delegate again that have ended since the backup.
func (w *world) runAgain(k *kubernetes, pod *corev1.Pod) {
	c := k.containers[pod.UID]
	if c == nil || c.running || ends(pod) {
		return
	}
	if k.ended == nil {
		k.ended = map[ended]bool{}
	}
	k.ended[ended{w.facts.delegates[pod.UID].proxy, c.code}] = true
	delete(k.containers, pod.UID)
}

// restore makes the objects those of an earlier version. Later changes never were: the next ones get their versions.
func (c *cluster) restore(version int) {
	c.version, c.objects = version, map[ref]client.Object{}
	for kind, log := range c.logs {
		n := 0
		for n < len(log) && log[n].version <= version {
			n++
		}
		c.logs[kind] = log[:n:n]
		maps.Copy(c.objects, after(log[:n]))
	}
}
