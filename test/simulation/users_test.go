package simulation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// jobFinalizer is that of the Job controller.
const jobFinalizer = "batch.kubernetes.io/job-tracking"

// Two pods with the name of the first one of names and with these numbers in their UIDs have delegates of one name.
const oneTwin, otherTwin = 3252, 5765

func names() []string { return []string{"web-0", "web-1"} }

// creations are pods that users and controllers create.
func (w *world) creations(names []string) []action {
	var all []action
	for i, name := range names {
		r := ref{kindPod, types.NamespacedName{Namespace: namespace, Name: name}}
		if w.source.objects[r] != nil {
			continue
		}
		for n, policy := range []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever} {
			pod := newProxy(name, policy, n == 1 && i == 1)
			label := fmt.Sprintf("a user creates %s (%s)", name, policy)
			all = append(all, action{label: label, do: func() { _, _ = w.source.create(pod) }})
		}
	}
	return all
}

// twins are pods with the same name and the same hash of their UIDs, one after the other.
func (w *world) twins() []action {
	name := names()[0]
	r := ref{kindPod, types.NamespacedName{Namespace: namespace, Name: name}}
	if w.source.objects[r] != nil || w.source.made[r] >= otherTwin {
		return nil
	}
	number, which := oneTwin, "one"
	if w.source.made[r] >= oneTwin {
		number, which = otherTwin, "the other"
	}
	return []action{{label: "a user creates " + name + ", " + which + " of twins", do: func() {
		w.source.made[r] = number - 1
		_, _ = w.source.create(newProxy(name, corev1.RestartPolicyAlways, false))
	}}}
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

// ofProxies are deletions of proxies in the source.
func (w *world) ofProxies() []action {
	var all []action
	for _, proxy := range list[*corev1.Pod](w.source) {
		all = append(all, w.deletions(w.source, proxy, proxy.UID)...)
	}
	return all
}

// ofDelegates are deletions of delegates in the targets.
func (w *world) ofDelegates() []action {
	var all []action
	for _, k := range w.targets {
		for _, pod := range list[*corev1.Pod](k.cluster) {
			all = append(all, w.deletions(k.cluster, pod, parentOf(pod))...)
		}
	}
	return all
}

// ofChaperons are deletions of PodChaperons by somebody in the targets.
func (w *world) ofChaperons() []action {
	var all []action
	for _, k := range w.targets {
		for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
			all = append(all, w.deletionsOf(k.cluster, chaperon)...)
		}
	}
	return all
}

// deletions are those of a proxy or a delegate. A proxy may go then.
func (w *world) deletions(c *cluster, pod *corev1.Pod, proxy types.UID) []action {
	var all []action
	for _, grace := range []*int64{nil, ptr.To[int64](5), ptr.To[int64](0)} {
		how := "deletes"
		if grace != nil {
			how = fmt.Sprintf("deletes with a grace period of %d s", *grace)
		}
		all = append(all, action{label: fmt.Sprintf("a user %s %s in %s", how, pod.Name, c.name), do: func() {
			w.facts.mayGo[proxy] = true
			forced := grace != nil && *grace == 0
			switch {
			case c == w.source:
				w.facts.deleted[proxy] = true
				if forced {
					w.facts.forced[proxy] = true
				}
				if pod.Spec.NodeName == "" {
					w.facts.unbound[proxy] = true
				}
			case forced:
				w.facts.unwatched[pod.UID] = true
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
		all = append(all, action{label: label, do: func() {
			w.facts.mayGo[parentOf(chaperon)] = true
			if how == metav1.DeletePropagationBackground && w.boundElsewhere(c, chaperon) {
				w.facts.unwatched[chaperon.UID] = true
			}
			_ = c.delete(refOf(chaperon), &client.DeleteOptions{PropagationPolicy: &how})
		}})
	}
	return all
}

// boundElsewhere says whether a PodChaperon is that of a surplus delegate: its proxy is bound to another target.
func (w *world) boundElsewhere(c *cluster, chaperon *v1alpha1.PodChaperon) bool {
	return slices.ContainsFunc(list[*corev1.Pod](w.source), func(proxy *corev1.Pod) bool {
		return proxy.UID == parentOf(chaperon) && proxy.Spec.NodeName != "" && proxy.Spec.NodeName != nodePrefix+c.name
	})
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
			}, "the source's controllers"})
		}
		if len(pod.Finalizers) > 0 && finished(pod.Status.Phase) {
			all = append(all, action{"the Job controller counts " + pod.Name, func() {
				counted := pod.DeepCopy()
				counted.Finalizers = nil
				w.source.put(counted)
			}, "the source's controllers"})
		}
	}
	return all
}
