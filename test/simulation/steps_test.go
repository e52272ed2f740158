package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// jobFinalizer is that of the Job controller.
const jobFinalizer = "batch.kubernetes.io/job-tracking"

// kinds are the kinds of steps, each as often as it is likely.
func kinds() []func(w *world) []action {
	var all []func(w *world) []action
	add := func(often int, kind func(w *world) []action) {
		for range often {
			all = append(all, kind)
		}
	}
	add(40, (*world).progress)
	add(5, (*world).faults)
	add(8, (*world).users)
	add(3, (*world).ends)
	add(3, (*world).times)
	add(4, (*world).outages)
	return all
}

// step does one step at random. Sometimes nothing goes wrong for a while.
func (w *world) step(random *rand.Rand, all []func(w *world) []action) {
	if random.IntN(6) == 0 {
		w.run(random.IntN(40))
		return
	}
	if possible := all[random.IntN(len(all))](w); len(possible) > 0 {
		w.do(possible[random.IntN(len(possible))])
	}
}

// repeat does the steps of these labels. It leaves those out that are not possible.
func (w *world) repeat(labels []string) {
	for _, label := range labels {
		if i := w.find(label); i != nil && w.failed() == nil {
			w.do(*i)
		}
	}
}

func (w *world) find(label string) *action {
	for _, kind := range []func(w *world) []action{
		(*world).progress, (*world).faults, (*world).users, (*world).ends, (*world).times, (*world).outages,
	} {
		all := kind(w)
		if i := slices.IndexFunc(all, func(a action) bool { return a.label == label }); i >= 0 {
			return &all[i]
		}
	}
	return nil
}

// faults are requests that do not arrive, or are not answered, or not at once, and watches that end.
func (w *world) faults() []action {
	all := w.failures(w.cut)
	for _, l := range w.behind() {
		all = append(all, action{l.name + " misses changes, and lists", l.relist})
	}
	return all
}

// failures are requests that do not arrive, or are not answered, or not at once.
func (w *network) failures(cut func(*process, *cluster) bool) []action {
	var all []action
	for _, c := range w.underWay() {
		for f := range faults {
			all = append(all, action{c.label + " " + f.String(), func() { c.fail(f); w.answer(c) }})
		}
		if !c.served && !cut(c.by, c.to) {
			all = append(all, action{c.label + " is carried out, and not answered yet", c.serve})
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.late {
		all = append(all, action{c.label + " arrives late", func() {
			c.serve()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.late = slices.Delete(w.late, i, i+1)
		}})
	}
	return all
}

// users are what people and controllers do.
func (w *world) users() []action {
	var all []action
	taken := map[string]bool{}
	for _, proxy := range list[*corev1.Pod](w.source) {
		taken[proxy.Name] = true
		all = append(all, w.deletions(w.source, proxy, proxy.UID)...)
	}
	for i, name := range []string{"web-0", "web-1"} {
		if taken[name] {
			continue
		}
		for n, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
			all = append(all, action{
				fmt.Sprintf("a user creates %s (%s)", name, policy),
				func() { _, _ = w.source.create(newProxy(name, policy, n == 1 && i == 1)) },
			})
		}
	}
	for _, k := range w.targets {
		for _, pod := range list[*corev1.Pod](k.cluster) {
			all = append(all, w.deletions(k.cluster, pod, parentOf(pod))...)
		}
		for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
			all = append(all, w.deletionsOf(k.cluster, chaperon)...)
		}
	}
	return all
}

func newProxy(name string, policy corev1.RestartPolicy, job bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Annotations: map[string]string{v1alpha1.AnnotationElect: "", v1alpha1.AnnotationOriginalConstraints: "{}"},
		},
		Spec: corev1.PodSpec{
			SchedulerName: v1alpha1.SchedulerName, RestartPolicy: policy,
			TerminationGracePeriodSeconds: ptr.To[int64](30), Containers: []corev1.Container{{Name: "app"}},
		},
	}
	if job {
		pod.Finalizers = []string{jobFinalizer}
	}
	return pod
}

// deletions are those of a proxy or a delegate. A proxy may go then.
func (w *world) deletions(c *cluster, pod *corev1.Pod, proxy types.UID) []action {
	var all []action
	for _, grace := range []*int64{nil, ptr.To[int64](5), ptr.To[int64](0)} {
		how := "deletes"
		if grace != nil {
			how = fmt.Sprintf("deletes with a grace period of %d s", *grace)
		}
		all = append(all, action{fmt.Sprintf("a user %s %s in %s", how, pod.Name, c.name), func() {
			w.facts.mayGo[proxy] = true
			w.facts.deleted[proxy] = w.facts.deleted[proxy] || c == w.source
			if grace != nil && *grace == 0 {
				w.facts.forced[proxy] = true
			}
			_ = c.delete(refOf(pod), &client.DeleteOptions{GracePeriodSeconds: grace})
		}})
	}
	return all
}

func (w *world) deletionsOf(c *cluster, chaperon *v1alpha1.PodChaperon) []action {
	var all []action
	for _, how := range []metav1.DeletionPropagation{
		metav1.DeletePropagationForeground, metav1.DeletePropagationBackground,
	} {
		label := fmt.Sprintf(
			"a user deletes PodChaperon %s in %s in the %s", chaperon.Name, c.name, strings.ToLower(string(how)),
		)
		all = append(all, action{label, func() {
			w.facts.mayGo[parentOf(chaperon)] = true
			w.facts.forced[parentOf(chaperon)] = true // Nobody waits for the delegate's end.
			_ = c.delete(refOf(chaperon), &client.DeleteOptions{PropagationPolicy: &how})
		}})
	}
	return all
}

// ends are containers that end by themselves.
func (w *world) ends() []action {
	var all []action
	for _, k := range w.targets {
		all = append(all, slices.DeleteFunc(k.actions(true), func(a action) bool {
			return !strings.Contains(a.label, ": success of") && !strings.Contains(a.label, ": failure of")
		})...)
	}
	return all
}

func (w *world) times() []action {
	var all []action
	for _, d := range []time.Duration{time.Second, 11 * time.Second, 31 * time.Second, 125 * time.Second} {
		all = append(all, action{d.String() + " pass", func() { w.pass(d) }})
	}
	return all
}

// outages are processes that end and begin, targets that are cut off and return, and targets that are full.
func (w *world) outages() []action {
	var all []action
	add := func(label string, do func()) { all = append(all, action{label, do}) }
	if w.manager.alive() {
		add("the source's manager crashes", func() { w.manager.crash(errCrash) })
	} else {
		add("the source's manager starts", func() { w.pass(leaseDuration); w.manager = w.startSource() })
	}
	for i, k := range w.targets {
		if w.managers[i].alive() {
			add(k.name+"'s manager crashes", func() { w.managers[i].crash(errCrash) })
		} else {
			add(k.name+"'s manager starts", func() { w.pass(leaseDuration); w.managers[i] = w.startTarget(k) })
		}
		if k.cut {
			add(k.name+" returns", func() { k.cut = false })
		} else {
			add(k.name+" is cut off", func() { k.cut = true })
		}
		if k.full {
			add(k.name+" has room", func() { k.full = false })
		} else {
			add(k.name+" is full", func() { k.full = true })
		}
		all = append(all, w.engagements(k)...)
	}
	return all
}

// engagements are what package connect/target does.
func (w *world) engagements(k *kubernetes) []action {
	if !w.manager.alive() {
		return nil
	}
	e := w.manager.engaged[k]
	switch {
	case k.cut && e != nil && e.target.Reachable():
		return []action{{k.name + " is lost", func() { w.manager.lose(k) }}}
	case !k.cut && (e == nil || !e.target.Reachable()):
		return []action{{k.name + " is engaged anew", func() { w.manager.engage(k) }}}
	default:
		return nil
	}
}

// jobs is the Job controller, which removes its finalizer from pods that have finished, and the pod garbage collector,
// which makes pods Failed that are deleted before they are bound.
func (w *world) jobs() []action {
	var all []action
	for _, pod := range list[*corev1.Pod](w.source) {
		if pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" && !finished(pod.Status.Phase) {
			all = append(all, action{"the pod garbage collector fails " + pod.Name, func() {
				failed := pod.DeepCopy()
				failed.Status.Phase = corev1.PodFailed
				w.source.put(failed)
			}})
		}
		if len(pod.Finalizers) > 0 && finished(pod.Status.Phase) {
			all = append(all, action{"the Job controller counts " + pod.Name, func() {
				counted := pod.DeepCopy()
				counted.Finalizers = nil
				w.source.put(counted)
			}})
		}
	}
	return all
}
