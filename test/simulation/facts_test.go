package simulation

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/proxy/ending"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// facts are what happened to proxies and delegates, by their UIDs.
type facts struct {
	// mayGo are the proxies that may go, because somebody deleted them, their delegates or their PodChaperons.
	mayGo map[types.UID]bool
	// deleted are the proxies that a user deleted, forced those that were to go at once, and unbound those that were
	// not bound then.
	deleted, forced, unbound map[types.UID]bool
	// unwatched are the delegates and PodChaperons for whose containers nobody waits. Somebody in the target deleted
	// the delegate by force, or the PodChaperon of a surplus one in the background. Or the target was set back.
	unwatched map[types.UID]bool
	// away are the targets that were lost while the proxy was not bound. The proxy may be placed elsewhere then. When
	// the target returns, one of the two delegates ends.
	away map[types.UID]map[*kubernetes]bool
	// first are the delegates whose containers started first, by their proxies. mayRunAgain are the proxies that may
	// have another one: those that away had. Or a target's manager counted as an earlier one, or was silent, so the
	// garbage collector ended a delegate that was withdrawn, which may have started.
	first       map[types.UID]types.UID
	mayRunAgain map[types.UID]bool
	// phases are the last phases of proxies, and codes their exit codes.
	phases map[types.UID]corev1.PodPhase
	codes  map[types.UID]int32
	// ran are the PodChaperons that showed a running delegate, and done those that showed one that had finished.
	ran, done map[types.UID]bool
	// names are the names of proxies.
	names map[types.UID]string
	// delegates are all pods that the targets had.
	delegates map[types.UID]delegate
}

// delegate is what is known of a pod in a target.
type delegate struct {
	proxy, chaperon types.UID
}

func newFacts() facts {
	return facts{
		mayGo: map[types.UID]bool{}, forced: map[types.UID]bool{}, unbound: map[types.UID]bool{},
		deleted: map[types.UID]bool{}, unwatched: map[types.UID]bool{},
		away: map[types.UID]map[*kubernetes]bool{}, mayRunAgain: map[types.UID]bool{},
		first: map[types.UID]types.UID{}, phases: map[types.UID]corev1.PodPhase{},
		ran: map[types.UID]bool{}, done: map[types.UID]bool{},
		codes: map[types.UID]int32{}, names: map[types.UID]string{}, delegates: map[types.UID]delegate{},
	}
}

func parentOf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1alpha1.LabelParentUID]) }

// targetChanged notes which pods are delegates, and checks that none is made again that has finished.
func (w *world) targetChanged(k *cluster, now change) {
	if c, ok := now.after.(*v1alpha1.PodChaperon); ok {
		w.chaperonChanged(k, c)
	}
	pod := asPod(now.after)
	if pod == nil {
		return
	}
	made := delegate{proxy: parentOf(pod)}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		made.chaperon = owner.UID
	}
	once := pod.Spec.RestartPolicy == corev1.RestartPolicyNever && !w.reached[oldLists]
	switch {
	case now.before != nil:
	case w.facts.done[made.chaperon] && !w.reached[oldLists]:
		w.violate("delegate %s was made again after it had finished", pod.Name)
	case w.facts.ran[made.chaperon] && once:
		w.violate("delegate %s was made again, which was to run once", pod.Name)
	}
	w.facts.delegates[pod.UID] = made
}

// chaperonChanged notes what the target's manager shows, and who ends a delegate that was withdrawn.
func (w *world) chaperonChanged(k *cluster, c *v1alpha1.PodChaperon) {
	if c.Status.Phase == corev1.PodRunning && !w.forgot(k, c) {
		w.facts.ran[c.UID] = true
	}
	if finished(c.Status.Phase) && !lost(c) && !w.forgot(k, c) {
		w.facts.done[c.UID] = true
	}
	bound := slices.ContainsFunc(list[*corev1.Pod](w.source), func(proxy *corev1.Pod) bool {
		return proxy.UID == parentOf(c) && proxy.Spec.NodeName != ""
	})
	if _, asked := translate.EndAsked(c); asked && !bound {
		w.facts.mayRunAgain[parentOf(c)] = true
	}
	if translate.Withdrawn(c) && slices.Contains(c.Finalizers, metav1.FinalizerDeleteDependents) {
		w.facts.mayRunAgain[parentOf(c)] = true
	}
}

// forgot says whether a target that was set back has forgotten that the delegate runs, or has finished. Its manager may
// have shown that from memory.
func (w *world) forgot(k *cluster, c *v1alpha1.PodChaperon) bool {
	setBack := slices.ContainsFunc(w.targets, func(t *kubernetes) bool { return t.cluster == k && t.backs > 0 })
	pod := asPod(k.objects[ref{kindPod, client.ObjectKeyFromObject(c)}])
	return setBack && pod != nil &&
		(pod.Status.Phase == corev1.PodPending || finished(c.Status.Phase) && !finished(pod.Status.Phase))
}

// excuseUnbound excuses the delegates in a target that is lost now, of proxies that are not bound. A lost target does
// not hold its pods. So they may be placed elsewhere, and have two delegates until the target returns. A proxy counts
// as not bound until the scheduler's cache shows its binding.
func (w *world) excuseUnbound(k *kubernetes, cached *lagging) {
	excused := maps.Clone(w.facts.unbound) // The source's cache may still show those.
	for _, proxy := range list[*corev1.Pod](w.source) {
		known := asPod(cached.objects[refOf(proxy)])
		excused[proxy.UID] = proxy.Spec.NodeName == "" ||
			known != nil && known.UID == proxy.UID && known.Spec.NodeName == ""
	}
	for proxy, yes := range excused {
		if yes && w.facts.away[proxy] == nil {
			w.facts.away[proxy] = map[*kubernetes]bool{}
		}
		if yes {
			w.facts.away[proxy][k], w.facts.mayRunAgain[proxy] = true, true
		}
	}
}

// proxyChanged checks a change of a proxy.
func (w *world) proxyChanged(_ *cluster, now change) {
	uid := now.object().GetUID()
	if now.after == nil {
		w.proxyGone(asPod(now.before))
		return
	}
	pod := asPod(now.after)
	w.facts.names[uid] = pod.Name
	if was := w.facts.phases[uid]; finished(was) && pod.Status.Phase != was {
		w.violate("proxy %s was %s and is %s", pod.Name, was, pod.Status.Phase)
	}
	w.facts.phases[uid] = pod.Status.Phase
	if pod.Spec.NodeName == "" && len(pod.Status.ContainerStatuses) > 0 {
		w.violate("proxy %s is not bound, and shows containers", pod.Name)
	}
	code, ok := exitCode(&pod.Status)
	if was, known := w.facts.codes[uid]; known && (!ok || was != code) {
		w.violate("proxy %s lost its exit code %d", pod.Name, was)
	}
	if ok {
		w.facts.codes[uid] = code
	}
}

func exitCode(status *corev1.PodStatus) (int32, bool) {
	for i := range status.ContainerStatuses {
		if ended := status.ContainerStatuses[i].State.Terminated; ended != nil {
			return ended.ExitCode, true
		}
	}
	return 0, false
}

// proxyGone checks that a proxy went for a reason, and not before its delegate.
func (w *world) proxyGone(proxy *corev1.Pod) {
	if !w.facts.mayGo[proxy.UID] {
		w.violate("proxy %s was deleted, and nobody asked for that", proxy.Name)
	}
	// Without an exit code, the source failed the proxy just before it deleted it, because the delegate is lost.
	_, ended := exitCode(&proxy.Status)
	if proxy.DeletionTimestamp == nil && ended && finished(proxy.Status.Phase) && !w.facts.deleted[proxy.UID] {
		w.violate("proxy %s had finished and was deleted", proxy.Name)
	}
	if !w.facts.deleted[proxy.UID] && !finished(proxy.Status.Phase) && w.finishedThere(proxy) {
		w.violate("proxy %s was deleted, and its delegate had finished", proxy.Name)
	}
	if w.facts.forced[proxy.UID] || proxy.Spec.NodeName == "" {
		return
	}
	if w.liveDelegates(awaited)[proxy.UID] > 0 && !w.endsElsewhere(proxy) {
		w.violate("proxy %s was removed while its delegate may run", proxy.Name)
	}
}

// endsElsewhere says whether those delegates of a proxy that may run are in targets to which it is not bound, after it
// was placed again while a target was lost. They end when their PodChaperons are seen: nobody waits for that.
func (w *world) endsElsewhere(proxy *corev1.Pod) bool {
	for uid, d := range w.facts.delegates {
		if d.proxy != proxy.UID || w.facts.unwatched[uid] || w.facts.unwatched[d.chaperon] {
			continue
		}
		for _, k := range w.targets {
			if proxy.Spec.NodeName == nodePrefix+k.name && k.mayRun(uid) {
				return false
			}
		}
	}
	return len(w.facts.away[proxy.UID]) > 0
}

// finishedThere says whether the target of a proxy shows that the delegate has finished before anybody deleted it.
func (w *world) finishedThere(proxy *corev1.Pod) bool {
	for _, k := range w.targets {
		for _, c := range list[*v1alpha1.PodChaperon](k.cluster) {
			if parentOf(c) == proxy.UID && proxy.Spec.NodeName == nodePrefix+k.name && c.DeletionTimestamp == nil &&
				finished(c.Status.Phase) && !lost(c) {
				return true
			}
		}
	}
	return false
}

// lost says whether the target's manager shows that the delegate was deleted.
func lost(chaperon *v1alpha1.PodChaperon) bool {
	for _, c := range chaperon.Status.Conditions {
		if c.Type == v1alpha1.ConditionDelegate {
			return true
		}
	}
	return false
}

// which delegates count.
type which bool

const (
	everyDelegate which = false
	// awaited are those for whose ends somebody has to wait.
	awaited which = true
)

// liveDelegates returns how many delegates of each proxy may run.
func (w *world) liveDelegates(count which) map[types.UID]int {
	live := map[types.UID]int{}
	for uid, d := range w.facts.delegates {
		if count == awaited && (w.facts.unwatched[uid] || w.facts.unwatched[d.chaperon]) {
			continue
		}
		for _, k := range w.targets {
			if k.mayRun(uid) && (count == everyDelegate || !w.facts.away[d.proxy][k]) {
				live[d.proxy]++
			}
		}
	}
	return live
}

// check checks what must be true at any time.
func (w *world) check() {
	ordinals := map[string]int{}
	w.runsOnce()
	w.back()
	for proxy, live := range w.liveDelegates(awaited) {
		if live > 1 {
			w.violate("proxy %s has %d delegates that may run", proxy, live)
		}
		if !w.facts.forced[proxy] && !w.facts.unbound[proxy] {
			ordinals[w.facts.names[proxy]] += live
		}
	}
	for name, live := range ordinals {
		if live > 1 {
			w.violate("pods of the name %s have %d delegates that may run", name, live)
		}
	}
}

// runsOnce checks that no delegate starts after another one of its proxy did, unless somebody deleted that one. In a
// target that was set back, delegates come back.
func (w *world) runsOnce() {
	if slices.ContainsFunc(w.targets, func(k *kubernetes) bool { return k.backs > 0 }) {
		return
	}
	for _, k := range w.targets {
		for uid := range k.containers {
			proxy := w.facts.delegates[uid].proxy
			first, ok := w.facts.first[proxy]
			if !ok {
				w.facts.first[proxy] = uid
			}
			if ok && first != uid && !w.facts.mayGo[proxy] && !w.facts.mayRunAgain[proxy] {
				w.violate("two delegates of proxy %s were started", proxy)
			}
		}
	}
}

// back ends the excuse of delegates in a target that was lost, when it is engaged and nothing goes on.
func (w *world) back() {
	if len(w.facts.away) == 0 || w.failed() != nil || !w.calm() {
		return
	}
	for proxy, targets := range w.facts.away {
		for k := range targets {
			if w.wanted(proxy) <= 1 {
				delete(targets, k)
			}
		}
		if len(targets) == 0 {
			delete(w.facts.away, proxy)
		}
	}
}

// calm says whether all targets are engaged, and nothing goes on but time.
func (w *world) calm() bool {
	for _, k := range w.targets {
		if e := w.manager.engaged[k]; k.cut || e == nil || !e.target.Reachable() {
			return false
		}
	}
	if slices.ContainsFunc(w.managers, func(p *process) bool { return !p.acts() }) {
		return false
	}
	return w.manager.acts() && !w.manager.backsOff() && len(w.progress()) == 0
}

// wanted returns how many PodChaperons of a proxy are there that nobody asked to end.
func (w *world) wanted(proxy types.UID) int {
	n := 0
	for _, k := range w.targets {
		for _, c := range list[*v1alpha1.PodChaperon](k.cluster) {
			if parentOf(c) == proxy && !ending.Begun(c) && !lost(c) {
				n++
			}
		}
	}
	return n
}
