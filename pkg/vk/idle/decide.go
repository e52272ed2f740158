package idle

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// The reasons of idle pods.
const (
	// ReasonNothingRuns means that the pod of a DaemonSet is acknowledged, and that nothing runs for it.
	ReasonNothingRuns = "NothingRuns"
	// ReasonNotElected means that nothing runs for the pod, because it is not elected.
	ReasonNotElected = "NotElected"
)

const (
	nothingRuns = "nothing runs here: %s is a virtual node, which runs elected pods only"
	ofAffinity  = "a required node affinity: " +
		v1alpha1.LabelNodeProvider + " NotIn [" + v1alpha1.LabelNodeProviderValue + "]"

	messageAcknowledged = nothingRuns + ". This pod counts as ready, so that its DaemonSet is not held up. To keep " +
		"the DaemonSet off virtual nodes, give it " + ofAffinity
	messageNotAcknowledged = nothingRuns + ", and this pod of a DaemonSet is not acknowledged (chart value " +
		"daemonSets.acknowledge, annotation " + v1alpha1.AnnotationAcknowledge + "). Give the DaemonSet " + ofAffinity
	messageNotElected = nothingRuns + ". Delete this pod. To run it in another cluster, create it again without " +
		"spec.nodeName, and with the annotation " + v1alpha1.AnnotationElect + ", in a namespace with the label " +
		v1alpha1.LabelEnabledNamespace + "=" + v1alpha1.LabelEnabledNamespaceValue
)

// decide returns the status that an idle pod is to have, or nil if it stays the same. It is pure.
func decide(pod *corev1.Pod, acknowledge bool, now metav1.Time) *corev1.PodStatus {
	if pod.DeletionTimestamp != nil || translate.Finished(pod.Status.Phase) {
		return nil
	}
	status := pod.Status.DeepCopy()
	status.ObservedGeneration = pod.Generation
	switch daemon := ofDaemonSet(pod); {
	case daemon && acknowledge && pod.Annotations[v1alpha1.AnnotationAcknowledge] != "false":
		status.StartTime = cmp.Or(status.StartTime, &now)
		show(status, corev1.PodRunning, ReasonNothingRuns, fmt.Sprintf(messageAcknowledged, pod.Spec.NodeName), now)
	case daemon:
		show(status, corev1.PodPending, ReasonNotElected, fmt.Sprintf(messageNotAcknowledged, pod.Spec.NodeName), now)
	default:
		show(status, corev1.PodPending, ReasonNotElected, fmt.Sprintf(messageNotElected, pod.Spec.NodeName), now)
	}
	if equality.Semantic.DeepEqual(&pod.Status, status) {
		return nil
	}
	return status
}

// ofDaemonSet says whether a DaemonSet controls the pod: that of Kubernetes, or one of the same name that a controller
// of others brings along.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// show sets the phase, and the conditions that a kubelet would set: True for a pod that runs, else False.
func show(status *corev1.PodStatus, phase corev1.PodPhase, reason, message string, now metav1.Time) {
	status.Phase, status.Reason, status.Message = phase, reason, message
	is := corev1.ConditionFalse
	if phase == corev1.PodRunning {
		is = corev1.ConditionTrue
	}
	for _, conditionType := range []corev1.PodConditionType{
		corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		setCondition(status, corev1.PodCondition{
			Type: conditionType, Status: is, Reason: reason, Message: message, LastTransitionTime: now,
			ObservedGeneration: status.ObservedGeneration,
		})
	}
}

// setCondition sets a condition, and keeps the time of its transition and of its last probe if its status stays.
func setCondition(status *corev1.PodStatus, condition corev1.PodCondition) {
	i := slices.IndexFunc(status.Conditions, func(c corev1.PodCondition) bool { return c.Type == condition.Type })
	if i < 0 {
		status.Conditions = append(status.Conditions, condition)
		return
	}
	was := &status.Conditions[i]
	condition.LastProbeTime = was.LastProbeTime
	if was.Status == condition.Status {
		condition.LastTransitionTime = was.LastTransitionTime
	}
	*was = condition
}
