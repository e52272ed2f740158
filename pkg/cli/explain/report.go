package explain

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/diagnosis"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// report is everything that the command prints of a pod, for people and programs.
type report struct {
	Namespace string          `json:"namespace"`
	Name      string          `json:"name"`
	UID       types.UID       `json:"uid"`
	Phase     corev1.PodPhase `json:"phase"`
	// Node is the virtual node that the pod is bound to.
	Node string `json:"node,omitempty"`
	// Summary describes in sentences where the pod is, why, and how the user can help it.
	Summary []string `json:"summary"`
	// Needs lists everything that the scheduler compares with the targets.
	Needs []string `json:"needs,omitempty"`
	// Containers are the containers that do not run as they should.
	Containers []diagnosis.Container `json:"containers,omitempty"`
	// Explanation is the manager's.
	Explanation *diagnosis.Explanation `json:"explanation,omitempty"`
	// Missing says why there is no explanation of a proxy, or no events. Without an explanation, the condition and the
	// events of the scheduler's decisions take its place.
	Missing      string  `json:"missing,omitempty"`
	PodScheduled string  `json:"podScheduled,omitempty"`
	Events       []event `json:"events,omitempty"`
}

// event is an event about the scheduling of the pod.
type event struct {
	LastSeen metav1.Time `json:"lastSeen"`
	Reason   string      `json:"reason"`
	From     string      `json:"from"`
	Message  string      `json:"message"`
}

func newReport(o *observation, now time.Time) report {
	pod := o.pod
	subject := diagnosis.Subject{Pod: pod, Namespace: o.namespace, Explanation: o.explanation, Node: o.node}
	r := report{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Phase: pod.Status.Phase, Node: pod.Spec.NodeName,
		Summary: subject.Summary(now),
	}
	if !translate.IsProxy(pod) {
		return r
	}
	r.Needs, r.Containers, r.Explanation = diagnosis.Needs(pod), diagnosis.Containers(pod), o.explanation
	r.Missing = o.missing
	scheduled := translate.PodCondition(pod.Status.Conditions, corev1.PodScheduled)
	if o.explanation == nil && scheduled != nil && scheduled.Status != corev1.ConditionTrue {
		r.PodScheduled = scheduled.Reason + ": " + scheduled.Message
	}
	for i := range o.events {
		e := &o.events[i]
		from := e.ReportingController
		if from == "" {
			from = e.Source.Component
		}
		r.Events = append(r.Events, event{
			LastSeen: metav1.NewTime(lastSeen(e)), Reason: e.Reason, From: from, Message: e.Message,
		})
	}
	return r
}
