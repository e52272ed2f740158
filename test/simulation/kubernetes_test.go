package simulation

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// action is something that can happen now.
type action struct {
	label string
	do    func()
	// of is the part of the world that does it, which may stall.
	of string
}

// container is what runs on a node, whatever the API server says.
type container struct {
	pod     *corev1.Pod // when it started
	running bool
	code    int32
	killed  bool
}

// kubernetes is what Kubernetes itself does in a target: its scheduler, a kubelet and the garbage collector.
type kubernetes struct {
	*cluster

	containers map[types.UID]*container
	full       bool
	// paused says that the scheduler does nothing.
	paused bool
	// cut says that the source does not reach the target.
	cut bool
	setBacks
}

// actions returns those that can happen now. Containers end by themselves only if asked for.
func (k *kubernetes) actions(ends bool) []action {
	var all []action
	by := func(of string) func(string, client.Object, func()) {
		return func(what string, o client.Object, do func()) {
			all = append(all, action{fmt.Sprintf("%s: %s %s", k.name, what, o.GetName()), do, k.name + "'s " + of})
		}
	}
	for _, pod := range list[*corev1.Pod](k.cluster) {
		k.schedule(pod, by("scheduler"))
		k.run(pod, ends, by("kubelet"))
		k.collect(pod, by("garbage collector"))
	}
	for _, c := range k.running() {
		if o := k.objects[refOf(c.pod)]; o == nil || o.GetUID() != c.pod.UID {
			by("kubelet")("the kubelet kills the container of the vanished", c.pod, c.kill)
		}
	}
	for _, chaperon := range list[*v1alpha1.PodChaperon](k.cluster) {
		if chaperon.DeletionTimestamp != nil && len(k.dependents(chaperon)) == 0 {
			by("garbage collector")("garbage collection lets go", chaperon, func() { k.letGo(chaperon) })
		}
	}
	return all
}

func (c *container) end(code int32) { c.running, c.code = false, code }

func (c *container) kill() { c.running, c.code, c.killed = false, 137, true }

func (k *kubernetes) running() []*container {
	var all []*container
	for _, c := range k.containers {
		if c.running {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *container) int { return compareNames(string(a.pod.UID), string(b.pod.UID)) })
	return all
}

// schedule is the target's scheduler.
func (k *kubernetes) schedule(pod *corev1.Pod, add func(string, client.Object, func())) {
	switch {
	case pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || k.paused:
	case !k.full:
		add("the scheduler binds", pod, func() { _ = k.bind(refOf(pod), pod.UID, "node") })
	case len(pod.Status.Conditions) == 0:
		add("the scheduler finds no node for", pod, func() {
			k.setStatus(pod, func(status *corev1.PodStatus) {
				k.setCondition(status, corev1.PodCondition{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
				})
			})
		})
	}
}

func (k *kubernetes) setStatus(pod *corev1.Pod, set func(*corev1.PodStatus)) {
	if now, ok := k.objects[refOf(pod)].(*corev1.Pod); ok && now.UID == pod.UID {
		changed := now.DeepCopy()
		set(&changed.Status)
		if !reflect.DeepEqual(now, changed) {
			k.put(changed)
		}
	}
}

// run is the kubelet.
//
//nolint:gocyclo // a list of what it does
func (k *kubernetes) run(pod *corev1.Pod, ends bool, add func(string, client.Object, func())) {
	c := k.containers[pod.UID]
	switch {
	case pod.Spec.NodeName == "":
		return
	case c == nil && pod.DeletionTimestamp == nil && !finished(pod.Status.Phase):
		add("the kubelet starts", pod, func() { k.containers[pod.UID] = &container{pod: pod, running: true} })
		return
	case c == nil && pod.DeletionTimestamp != nil:
		add("the kubelet confirms the end of", pod, func() { k.confirm(pod) })
		return
	case c == nil:
		return
	}
	if c.running && pod.DeletionTimestamp != nil {
		add("the kubelet kills", pod, c.kill)
	}
	if c.running && ends && pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		add("success of", pod, func() { c.end(0) })
		add("failure of", pod, func() { c.end(3) })
	}
	if c.running && ends && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		add("failure of node under", pod, func() { c.end(137) }) // The kubelet evicts the pod.
	}
	status := pod.Status.DeepCopy()
	c.report(status)
	switch {
	case !reflect.DeepEqual(status, &pod.Status):
		add("the kubelet reports", pod, func() { k.setStatus(pod, c.report) })
	case !c.running && pod.DeletionTimestamp != nil:
		add("the kubelet confirms the end of", pod, func() { k.confirm(pod) })
	}
}

// report writes into a status what runs.
func (c *container) report(status *corev1.PodStatus) {
	is := corev1.ContainerStatus{Name: "app"}
	switch {
	case c.running:
		status.Phase = corev1.PodRunning
		is.State.Running = &corev1.ContainerStateRunning{}
	case c.code == 0:
		status.Phase = corev1.PodSucceeded
	default:
		status.Phase = corev1.PodFailed
	}
	if !c.running {
		is.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: c.code}
	}
	status.ContainerStatuses = []corev1.ContainerStatus{is}
}

func (k *kubernetes) confirm(pod *corev1.Pod) {
	_ = k.delete(refOf(pod), &client.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
}

// collect is the garbage collector, for one pod: it deletes the dependents of objects that are deleted, or are going to
// be.
func (k *kubernetes) collect(pod *corev1.Pod, add func(string, client.Object, func())) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || pod.DeletionTimestamp != nil {
		return
	}
	chaperon := k.objects[ref{kindChaperon, types.NamespacedName{Namespace: pod.Namespace, Name: owner.Name}}]
	if chaperon != nil && chaperon.GetUID() == owner.UID && chaperon.GetDeletionTimestamp() == nil {
		return
	}
	add("garbage collection deletes", pod, func() {
		_ = k.delete(refOf(pod), &client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	})
}

func (k *kubernetes) dependents(chaperon *v1alpha1.PodChaperon) []*corev1.Pod {
	return slices.DeleteFunc(list[*corev1.Pod](k.cluster), func(pod *corev1.Pod) bool {
		return !metav1.IsControlledBy(pod, chaperon)
	})
}

func (k *kubernetes) letGo(chaperon *v1alpha1.PodChaperon) {
	changed := chaperon.DeepCopy()
	changed.Finalizers = nil
	changed.DeletionGracePeriodSeconds = nil
	k.put(changed)
}

// mayRun says whether a container of the pod runs, or may start any time.
func (k *kubernetes) mayRun(uid types.UID) bool {
	if c := k.containers[uid]; c != nil {
		return c.running
	}
	for _, o := range k.objects {
		if pod, ok := o.(*corev1.Pod); ok && pod.UID == uid {
			return pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil && !finished(pod.Status.Phase)
		}
	}
	return false
}

func asPod(o client.Object) *corev1.Pod {
	pod, _ := o.(*corev1.Pod)
	return pod
}
