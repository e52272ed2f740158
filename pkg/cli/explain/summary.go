package explain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// summary says in sentences how the pod is, and what can be done.
func (o *observation) summary(now time.Time) []string {
	if !translate.IsProxy(o.pod) {
		return o.apart()
	}
	pod, name := o.pod, "Pod "+o.pod.Namespace+"/"+o.pod.Name
	var said []string
	if pod.DeletionTimestamp != nil {
		said = append(said, name+" is being deleted"+ends(pod, now)+".")
		name = "It"
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return append(said, fmt.Sprintf("%s has finished (%s) in %s.", name, pod.Status.Phase, o.place()))
	case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning:
		return append(said, fmt.Sprintf("%s runs in %s.", name, o.place()))
	case pod.Spec.NodeName != "":
		return append(said, fmt.Sprintf("%s is placed in %s, and does not run yet.", name, o.place()))
	case pod.DeletionTimestamp != nil:
		return append(said, "It was not placed.")
	case len(pod.Spec.SchedulingGates) > 0:
		return append(said, fmt.Sprintf("%s is held back in this cluster, by %s: no target is looked at before whoever put that there removes it.", name, gates(pod)))
	case o.disabled():
		return append(said, fmt.Sprintf("%s is pending: its namespace is not enabled (any more). %s", name, o.enable()))
	}
	return append(said, strings.TrimSpace(name+" is pending. "+o.waitsFor(now)))
}

// apart says why a pod does not take part, and what to do.
func (o *observation) apart() []string {
	pod, name := o.pod, "Pod "+o.pod.Namespace+"/"+o.pod.Name
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "PodChaperon" && pod.Annotations[v1alpha1.AnnotationParentName] != "" {
		from := ""
		if cluster := pod.Labels[v1alpha1.LabelParentClusterName]; cluster != "" {
			from = " of cluster " + cluster
		}
		return []string{fmt.Sprintf("%s is a delegate: it was placed here for pod %s/%s%s. Explain that one, in its cluster.", name,
			pod.Annotations[v1alpha1.AnnotationParentNamespace], pod.Annotations[v1alpha1.AnnotationParentName], from)}
	}
	const anew = "Pods are elected when they are created: create it anew then (kubectl rollout restart, of a Deployment)."
	var said []string
	if translate.Elected(pod) {
		said = append(said, fmt.Sprintf("%s has the annotation %s, but was not elected when it was created, and is an ordinary pod of this cluster.",
			name, v1alpha1.AnnotationElect))
	} else {
		said = append(said, fmt.Sprintf("%s is not elected: it is an ordinary pod of this cluster. To have it run in whichever target has room, add the annotation "+
			"%s: \"\" to it; in a Deployment, to spec.template.metadata.annotations.", name, v1alpha1.AnnotationElect))
	}
	switch {
	case pod.Spec.SchedulerName == v1alpha1.SchedulerName:
		said = append(said, fmt.Sprintf("It names the scheduler %s itself, which takes elected pods only: leave out spec.schedulerName.", v1alpha1.SchedulerName))
	case pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		said = append(said, fmt.Sprintf("Its scheduler is %s.", pod.Spec.SchedulerName))
	}
	if o.disabled() {
		said = append(said, "Its namespace is not enabled. "+o.enable())
	}
	return append(said, anew)
}

func (o *observation) disabled() bool {
	return o.namespace != nil && o.namespace.Labels[v1alpha1.LabelEnabledNamespace] != v1alpha1.LabelEnabledNamespaceValue
}

func (o *observation) enable() string {
	return fmt.Sprintf("Enable it: kubectl label namespace %s %s=%s --overwrite", o.pod.Namespace, v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue)
}

// place names the target that the pod is bound to.
func (o *observation) place() string {
	node := o.pod.Spec.NodeName
	if o.explanation != nil {
		for i := range o.explanation.Targets {
			if t := &o.explanation.Targets[i]; t.Node == node {
				return fmt.Sprintf("%s (virtual node %s)", t.Name, node)
			}
		}
	}
	if node == "" {
		return "no target"
	}
	return "the target of virtual node " + node
}

// waitsFor says what has to happen for the pod to be placed.
func (o *observation) waitsFor(now time.Time) string {
	switch {
	case o.explanation == nil:
		return ""
	case o.explanation.Node != "":
		return "It is being bound to " + o.explanation.Node + "."
	}
	for i := len(o.explanation.Attempts) - 1; i >= 0; i-- {
		if a := &o.explanation.Attempts[i]; a.Outcome == diagnosis.Waiting {
			return lasting(a, now)
		}
	}
	if len(o.explanation.Targets) == 0 {
		return cmp.Or(o.explanation.Message, "No target has been looked at yet.")
	}
	return "No target can take it now. It is tried again when one changes so that it might."
}

// lasting says what an attempt that lasts is waiting for.
func lasting(a *diagnosis.Attempt, now time.Time) string {
	during := ""
	if !a.Started.IsZero() {
		during = ", for " + span(now.Sub(a.Started.Time)) + " now"
	}
	what := map[string]string{
		diagnosis.TrialUnsure:  "to say whether it fits there",
		diagnosis.TrialPreempt: "to make room for it by evicting pods of lower priority",
		diagnosis.TrialGrow:    "to add a node for it",
	}[a.Trial]
	if what == "" {
		what = "to schedule it"
	}
	said := fmt.Sprintf("It waits for target %s %s%s.", a.Target, what, during)
	if a.Reason != "" {
		said += " So far, the target says: " + a.Reason
	}
	return said
}

// ends says when a pod that is being deleted is gone, if nothing is wrong.
func ends(pod *corev1.Pod, now time.Time) string {
	left := pod.DeletionTimestamp.Sub(now)
	if left > 0 {
		return ", within " + span(left)
	}
	return fmt.Sprintf(", and should have ended %s ago; is its target connected? See kubectl multicluster status", span(-left))
}

func gates(pod *corev1.Pod) string {
	names := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, gate := range pod.Spec.SchedulingGates {
		names = append(names, gate.Name)
	}
	noun := "scheduling gate "
	if len(names) > 1 {
		noun = "scheduling gates "
	}
	return noun + strings.Join(names, ", ")
}
