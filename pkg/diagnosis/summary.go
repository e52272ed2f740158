package diagnosis

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Subject is a pod with everything that is known of it.
type Subject struct {
	Pod *corev1.Pod
	// Namespace is the pod's; nil if nobody could read it.
	Namespace *corev1.Namespace
	// Explanation is the scheduler's; nil if there is none.
	Explanation *Explanation
	// Node is the virtual node that the pod is bound to; nil if nobody could read it.
	Node *corev1.Node
}

// Summary describes in sentences where the pod is, why, and how the user can help it.
func (s Subject) Summary(now time.Time) []string {
	if !translate.IsProxy(s.Pod) {
		return s.notElected()
	}
	pod, name := s.Pod, s.name()
	var sentences []string
	if pod.DeletionTimestamp != nil {
		sentences = append(sentences, name+" is being deleted"+deletion(pod, now)+".")
		name = "It"
	}
	switch {
	case translate.Finished(pod.Status.Phase):
		return append(sentences, fmt.Sprintf("%s has finished (%s) in %s.", name, pod.Status.Phase, s.place()))
	case pod.Spec.NodeName != "" && pod.Status.Phase == corev1.PodRunning:
		sentences = append(sentences, fmt.Sprintf("%s runs in %s%s.", name, s.place(), s.lastSeen()))
		return append(sentences, s.fenced()...)
	case pod.Spec.NodeName != "":
		const text = "%s is placed in %s, and does not run yet%s."
		return append(append(sentences, fmt.Sprintf(text, name, s.place(), s.lastSeen())), s.fenced()...)
	case pod.DeletionTimestamp != nil:
		return append(sentences, "It was not placed.")
	case len(pod.Spec.SchedulingGates) > 0:
		const text = "%s is held back in this cluster by %s. " +
			"The scheduler looks for a target once all gates are removed; whoever added a gate removes it."
		return append(sentences, fmt.Sprintf(text, name, gates(pod)))
	case s.namespaceDisabled():
		return append(sentences, name+" is pending: its namespace is not enabled (any more). "+s.enableNamespace())
	}
	return append(sentences, strings.TrimSpace(name+" is pending. "+s.waitsFor(now)))
}

// notElected says why a pod is no proxy, and how the user makes it one.
func (s Subject) notElected() []string {
	pod := s.Pod
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "PodChaperon" &&
		pod.Annotations[v1alpha1.AnnotationParentName] != "" {
		return []string{s.delegate()}
	}
	var sentences []string
	if translate.Elected(pod) {
		sentences = append(sentences, fmt.Sprintf("%s has the annotation %s, but it was not elected "+
			"when it was created. It is an ordinary pod of this cluster.", s.name(), v1alpha1.AnnotationElect))
	} else {
		sentences = append(sentences, fmt.Sprintf("%s is not elected: it is an ordinary pod of this cluster. "+
			"To run it in whichever target has room, add the annotation %s: \"\" to it; "+
			"in a Deployment, to spec.template.metadata.annotations.", s.name(), v1alpha1.AnnotationElect))
	}
	switch {
	case pod.Spec.SchedulerName == v1alpha1.SchedulerName:
		sentences = append(sentences, fmt.Sprintf("It names the scheduler %s itself, which takes elected pods only: "+
			"leave out spec.schedulerName.", v1alpha1.SchedulerName))
	case pod.Spec.SchedulerName != corev1.DefaultSchedulerName:
		sentences = append(sentences, fmt.Sprintf("Its scheduler is %s.", pod.Spec.SchedulerName))
	}
	if s.namespaceDisabled() {
		sentences = append(sentences, "Its namespace is not enabled. "+s.enableNamespace())
	}
	return append(sentences, "Pods are elected only at creation: create the pod again afterwards "+
		"(for a Deployment, kubectl rollout restart).")
}

// delegate says of which pod this one is the delegate.
func (s Subject) delegate() string {
	annotations, cluster := s.Pod.Annotations, ""
	if name := s.Pod.Labels[v1alpha1.LabelParentClusterName]; name != "" {
		cluster = " of cluster " + name
	}
	return fmt.Sprintf("%s is a delegate: it was placed here for pod %s/%s%s. Explain that pod, in its cluster.",
		s.name(), annotations[v1alpha1.AnnotationParentNamespace], annotations[v1alpha1.AnnotationParentName], cluster)
}

func (s Subject) name() string { return "Pod " + s.Pod.Namespace + "/" + s.Pod.Name }

func (s Subject) namespaceDisabled() bool {
	return s.Namespace != nil &&
		s.Namespace.Labels[v1alpha1.LabelEnabledNamespace] != v1alpha1.LabelEnabledNamespaceValue
}

func (s Subject) enableNamespace() string {
	return fmt.Sprintf("Enable it: kubectl label namespace %s %s=%s --overwrite",
		s.Pod.Namespace, v1alpha1.LabelEnabledNamespace, v1alpha1.LabelEnabledNamespaceValue)
}

// place names the target that the pod is bound to.
func (s Subject) place() string {
	node := s.Pod.Spec.NodeName
	if s.Explanation != nil {
		for i := range s.Explanation.Targets {
			if t := &s.Explanation.Targets[i]; t.Node == node {
				return fmt.Sprintf("%s (virtual node %s)", t.Name, node)
			}
		}
	}
	if node == "" {
		return "no target"
	}
	return "the target of virtual node " + node
}

// waitsFor says what the pending pod waits for.
func (s Subject) waitsFor(now time.Time) string {
	e := s.Explanation
	switch {
	case e == nil:
		return ""
	case e.Node != "":
		return "It is being bound to " + e.Node + "."
	}
	for i := len(e.Attempts) - 1; i >= 0; i-- {
		if a := &e.Attempts[i]; a.Outcome == Waiting {
			return a.waitsFor(now)
		}
	}
	if len(e.Targets) == 0 {
		return cmp.Or(e.Message, "No target has been looked at yet.")
	}
	if e.Targets[0].Chosen && e.Message != "" {
		return "It waits: " + e.Message + "."
	}
	sentence := "No target can take it now. It is tried again when a target changes so that it might."
	if n := len(e.Attempts); n > 0 {
		last := &e.Attempts[n-1]
		sentence += fmt.Sprintf(" The last one tried was %s: %s.", last.Target, last.Outcome.Words())
	}
	return sentence
}

// waitsFor says what the target of an attempt that lasts has to do.
func (a *Attempt) waitsFor(now time.Time) string {
	duration := ""
	if !a.Started.IsZero() {
		duration = ", for " + Duration(now.Sub(a.Started.Time)) + " now"
	}
	task := map[string]string{
		"":           "to schedule it",
		TrialUnsure:  "to say whether it fits there",
		TrialPreempt: "to make room for it by evicting pods of lower priority",
		TrialGrow:    "to add a node for it",
		TrialQueue:   "to let it through a queue",
	}[a.Trial]
	sentence := fmt.Sprintf("It waits for target %s %s%s.", a.Target, task, duration)
	if a.Reason != "" {
		sentence += " So far, the target says: " + a.Reason
	}
	return sentence
}

// deletion says when the API server will remove a pod that is being deleted, or that it should have done so.
func deletion(pod *corev1.Pod, now time.Time) string {
	left := pod.DeletionTimestamp.Sub(now)
	if left > 0 {
		return ", within " + Duration(left)
	}
	return ", and should have ended " + Duration(-left) + " ago; has its delegate ended, and is " +
		"its target connected? See the pod's events, and kubectl multicluster status"
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
