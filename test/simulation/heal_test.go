package simulation

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

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
		return w.untrue(proxy)
	case proxy.Spec.NodeName == "":
		return fmt.Errorf("proxy %s is not bound", proxy.Name)
	case w.liveDelegates(everyDelegate)[proxy.UID] != 1:
		return fmt.Errorf("proxy %s has no delegate, or more than one, and is %s", proxy.Name, proxy.Status.Phase)
	case proxy.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("proxy %s is %s, and its delegate runs", proxy.Name, proxy.Status.Phase)
	}
	return nil
}

// untrue says whether a finished proxy shows something else than how its delegate ended.
func (w *world) untrue(proxy *corev1.Pod) error {
	code, ok := exitCode(&proxy.Status)
	if !ok && proxy.Status.Phase == corev1.PodFailed && w.facts.mayGo[proxy.UID] {
		return nil // Its delegate was lost. A Job counts it.
	}
	if !ok || (code == 0) != (proxy.Status.Phase == corev1.PodSucceeded) {
		return fmt.Errorf("proxy %s is %s without the exit code", proxy.Name, proxy.Status.Phase)
	}
	for _, k := range w.targets {
		for uid, c := range k.containers {
			if w.facts.delegates[uid].proxy == proxy.UID && !c.running && c.code == code {
				return nil
			}
		}
		if k.ended[ended{proxy.UID, code}] {
			return nil
		}
	}
	return fmt.Errorf("proxy %s shows the exit code %d, which its delegate did not have", proxy.Name, code)
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

// heal repairs everything, and lets time pass until everything is as it must be. If one target is out of reach, it
// stays so at first: pods that are not bound must find the other one.
func (w *world) heal() {
	w.trace = append(w.trace, healed)
	w.noticeSetBacks(healing)
	for _, k := range w.targets {
		w.accept(k)
	}
	w.restart()
	if dead := w.deadTarget(); dead != nil {
		w.manager.lose(dead)
		w.until(w.unplaced)
	}
	for _, k := range w.targets {
		k.cut = false
	}
	w.noticeSetBacks(healing) // of targets that were out of reach
	w.engageAll()
	if w.failed() == nil {
		w.wait()
	}
	for _, k := range w.targets {
		k.full, k.paused = false, false
	}
	w.until(w.unsettled)
}

// restart lets all processes run that should.
func (w *world) restart() {
	for _, p := range slices.Concat([]*process{w.manager.process}, w.managers, w.former) {
		if p.frozen {
			p.crash(errCrash)
		}
	}
	for i, k := range w.targets {
		if !w.managers[i].alive() {
			w.managers[i] = w.startTarget(k, 0, 0)
		}
	}
	if !w.manager.alive() {
		w.pass(leaseDuration)
		w.manager = w.startSource(0)
	}
	for _, k := range w.targets {
		k.full = false
	}
	w.rest()
}

func (w *world) engageAll() {
	for _, k := range w.targets {
		if w.canEngage(k) {
			w.manager.engage(k, 0)
		}
	}
	w.rest()
}

// deadTarget returns the target that is out of reach, or nil if it is not one.
func (w *world) deadTarget() *kubernetes {
	var dead *kubernetes
	for _, k := range w.targets {
		switch {
		case k.cut && dead != nil:
			return nil
		case k.cut:
			dead = k
		case w.canEngage(k):
			w.manager.engage(k, 0)
		}
	}
	w.rest()
	return dead
}

// unplaced says which proxy is not bound, although one target is in reach.
func (w *world) unplaced() error {
	for _, proxy := range list[*corev1.Pod](w.source) {
		if proxy.Spec.NodeName == "" && proxy.DeletionTimestamp == nil {
			return fmt.Errorf("proxy %s is not bound, and a target is in reach", proxy.Name)
		}
	}
	return nil
}

// wait lets everything go on while the targets' schedulers pause. Then no pod is being placed in two targets: if one of
// them has scheduled the delegate, the pod is bound there.
func (w *world) wait() {
	for _, k := range w.targets {
		k.paused = true
	}
	for range 2 {
		w.run(2000)
		w.pass(healing)
	}
	for _, proxy := range list[*corev1.Pod](w.source) {
		if proxy.DeletionTimestamp != nil || proxy.Spec.NodeName != "" {
			continue
		}
		wanted := w.wanted(proxy.UID)
		if wanted > 1 && !w.unpatched[translate.DelegateName(proxy)] {
			w.violate("proxy %s is being placed in %d targets", proxy.Name, wanted)
		}
	}
}

// until lets time pass until there is no error.
func (w *world) until(wrong func() error) {
	var err error
	for range 240 {
		w.run(2000)
		if err = wrong(); err == nil || w.failed() != nil {
			return
		}
		w.trace = append(w.trace, "time passes")
		w.pass(healing)
	}
	w.violate("nothing changes any more: %v", err)
}

// run does what goes on by itself, at most so many steps of it. Each part gets its turn.
func (w *world) run(steps int) {
	for i := range steps {
		all := w.progress()
		if len(all) == 0 || w.failed() != nil {
			return
		}
		w.do(all[i%len(all)])
	}
}

const leaseDuration = 15 * time.Second
