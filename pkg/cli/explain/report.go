package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// report is what is told of a pod, to people and programs.
type report struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       types.UID       `json:"uid"`
	Phase     corev1.PodPhase `json:"phase"`
	// Node is the virtual node that the pod is bound to.
	Node string `json:"node,omitempty"`
	// Summary says in sentences how the pod is, and what can be done.
	Summary []string `json:"summary"`
	// Needs are what is compared with what targets have.
	Needs []string `json:"needs,omitempty"`
	// Containers are those that do not run as they should.
	Containers []container `json:"containers,omitempty"`
	// Explanation is what the manager knows.
	Explanation *diagnosis.Explanation `json:"explanation,omitempty"`
	// Missing says why there is no explanation, although there could be one. Then what follows is told instead.
	Missing      string  `json:"missing,omitempty"`
	PodScheduled string  `json:"podScheduled,omitempty"`
	Events       []event `json:"events,omitempty"`
}

// event is one of the pod's that says how it was scheduled.
type event struct {
	LastSeen metav1.Time `json:"lastSeen"`
	Reason   string      `json:"reason"`
	From     string      `json:"from"`
	Message  string      `json:"message"`
}

func newReport(o *observation, now time.Time) report {
	pod := o.pod
	r := report{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Phase: pod.Status.Phase, Node: pod.Spec.NodeName,
		Summary: o.summary(now),
	}
	if !translate.IsProxy(pod) {
		return r
	}
	r.Needs, r.Containers, r.Explanation = needs(pod), containers(pod), o.explanation
	if o.explanation != nil {
		return r
	}
	r.Missing = o.missing
	if c := condition(pod, corev1.PodScheduled); c != nil && c.Status != corev1.ConditionTrue {
		r.PodScheduled = c.Reason + ": " + c.Message
	}
	for i := range o.events {
		e := &o.events[i]
		from := e.ReportingController
		if from == "" {
			from = e.Source.Component
		}
		r.Events = append(r.Events, event{LastSeen: metav1.NewTime(lastSeen(e)), Reason: e.Reason, From: from, Message: e.Message})
	}
	return r
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
