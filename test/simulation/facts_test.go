package simulation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// facts are what happened to proxies, by their UIDs.
type facts struct {
	// mayGo are the proxies that may go, because somebody deleted them, their delegates or their PodChaperons.
	mayGo map[types.UID]bool
	// deleted are the proxies that a user deleted.
	deleted map[types.UID]bool
	// forced are those where somebody asked for more than the product can promise: a deletion that does not wait for
	// containers, or a target that is lost before they are bound.
	forced map[types.UID]bool
	// phases are the last phases of proxies, and codes their exit codes.
	phases map[types.UID]corev1.PodPhase
	codes  map[types.UID]int32
	// delegates are all pods that the targets had, with their proxies.
	delegates map[types.UID]types.UID
}

func newFacts() facts {
	return facts{
		mayGo: map[types.UID]bool{}, forced: map[types.UID]bool{}, phases: map[types.UID]corev1.PodPhase{},
		codes: map[types.UID]int32{}, delegates: map[types.UID]types.UID{},
		deleted: map[types.UID]bool{},
	}
}

func parentOf(o client.Object) types.UID { return types.UID(o.GetLabels()[v1alpha1.LabelParentUID]) }

// targetChanged notes which pods are delegates.
func (w *world) targetChanged(_ *cluster, now change) {
	if pod := asPod(now.after); pod != nil {
		w.facts.delegates[pod.UID] = parentOf(pod)
	}
}

// excuseUnbound excuses the proxies that are not bound, because a target is lost now. A lost target does not hold its
// pods, so they may be placed elsewhere, and have two delegates until it returns and one is discarded.
func (w *world) excuseUnbound() {
	for _, proxy := range list[*corev1.Pod](w.source) {
		if proxy.Spec.NodeName == "" {
			w.facts.forced[proxy.UID] = true
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
	if was := w.facts.phases[uid]; finished(was) && pod.Status.Phase != was {
		w.violate("proxy %s was %s and is %s", pod.Name, was, pod.Status.Phase)
	}
	w.facts.phases[uid] = pod.Status.Phase
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
	if w.facts.forced[proxy.UID] || proxy.Spec.NodeName == "" {
		return
	}
	if live := w.liveDelegates()[proxy.UID]; live > 0 {
		w.violate("proxy %s was removed while its delegate may run", proxy.Name)
	}
}

// liveDelegates returns how many delegates of each proxy may run.
func (w *world) liveDelegates() map[types.UID]int {
	live := map[types.UID]int{}
	for delegate, proxy := range w.facts.delegates {
		for _, k := range w.targets {
			if k.mayRun(delegate) {
				live[proxy]++
			}
		}
	}
	return live
}

// check checks what must be true at any time.
func (w *world) check() {
	for proxy, live := range w.liveDelegates() {
		if live > 1 && !w.facts.forced[proxy] {
			w.violate("proxy %s has %d delegates that may run", proxy, live)
		}
	}
}

// unsettled says what is not as it must be after the network healed and time passed.
func (w *world) unsettled() error {
	proxies := map[types.UID]*corev1.Pod{}
	for _, proxy := range list[*corev1.Pod](w.source) {
		proxies[proxy.UID] = proxy
		if err := w.unsettledProxy(proxy); err != nil {
			return err
		}
	}
	for _, k := range w.targets {
		if err := k.unsettled(proxies); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) unsettledProxy(proxy *corev1.Pod) error {
	switch {
	case proxy.DeletionTimestamp != nil:
		return fmt.Errorf("proxy %s is still being deleted", proxy.Name)
	case finished(proxy.Status.Phase):
		return nil
	case proxy.Spec.NodeName == "":
		return fmt.Errorf("proxy %s is not bound", proxy.Name)
	case w.liveDelegates()[proxy.UID] != 1:
		return fmt.Errorf("proxy %s has no delegate, or more than one, and is %s", proxy.Name, proxy.Status.Phase)
	case proxy.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("proxy %s is %s, and its delegate runs", proxy.Name, proxy.Status.Phase)
	}
	return nil
}

func (k *kubernetes) unsettled(proxies map[types.UID]*corev1.Pod) error {
	for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
		proxy := proxies[parentOf(chaperon)]
		switch {
		case chaperon.DeletionTimestamp != nil:
			return fmt.Errorf("PodChaperon %s is still being deleted", chaperon.Name)
		case proxy == nil:
			return fmt.Errorf("PodChaperon %s has no proxy", chaperon.Name)
		case proxy.Spec.NodeName != nodePrefix+k.name:
			return fmt.Errorf("PodChaperon %s is in %s, its proxy is bound to %q",
				chaperon.Name, k.name, proxy.Spec.NodeName)
		}
	}
	for _, pod := range list[*corev1.Pod](k.cluster) {
		switch {
		case pod.DeletionTimestamp != nil:
			return fmt.Errorf("delegate %s is still being deleted", pod.Name)
		case k.objects[ref{kindChaperon, client.ObjectKeyFromObject(pod)}] == nil:
			return fmt.Errorf("delegate %s has no PodChaperon", pod.Name)
		}
	}
	return nil
}

const (
	healing = 5 * time.Second // less than the deadline of a request
	healed  = "everything is repaired"
)

// heal repairs everything, and lets time pass until everything is as it must be.
func (w *world) heal() {
	w.trace = append(w.trace, healed)
	for i, k := range w.targets {
		k.cut, k.full = false, false
		if !w.managers[i].alive() {
			w.managers[i] = w.startTarget(k)
		}
	}
	if !w.manager.alive() {
		w.pass(leaseDuration)
		w.manager = w.startSource()
	}
	for _, k := range w.targets {
		if e := w.manager.engaged[k]; e == nil || !e.target.Reachable() {
			w.manager.engage(k)
		}
	}
	w.rest()
	var err error
	for range 240 {
		w.run(2000)
		if err = w.unsettled(); err == nil || w.failed() != nil {
			return
		}
		w.trace = append(w.trace, "time passes")
		w.pass(healing)
	}
	w.violate("nothing changes any more: %v", err)
}

// run does what goes on by itself, at most so many steps of it.
func (w *world) run(steps int) {
	for range steps {
		all := w.progress()
		if len(all) == 0 || w.failed() != nil {
			return
		}
		w.do(all[0])
	}
}

const leaseDuration = 15 * time.Second
