package podcache

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// Transform is the cache transform of pods. It keeps proxies and delegates but for their managedFields, and of any other pod what
// identifies it, where it runs, and what k8s.io/component-helpers/resource.PodRequests reads. Other objects pass untouched.
// It changes the pod that it is given, and a second call changes nothing.
func Transform(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	pod.ManagedFields = nil
	if isOurs(pod) {
		return pod, nil
	}
	pod.ObjectMeta = identity(pod.ObjectMeta)
	pod.Spec = corev1.PodSpec{
		NodeName:       pod.Spec.NodeName,
		Containers:     requestsOf(pod.Spec.Containers),
		InitContainers: requestsOf(pod.Spec.InitContainers),
		Overhead:       pod.Spec.Overhead,
		Resources:      onlyRequests(pod.Spec.Resources),
	}
	pod.Status = corev1.PodStatus{
		Phase:                                pod.Status.Phase,
		Conditions:                           resizeConditions(pod.Status.Conditions),
		ContainerStatuses:                    allocationsOf(pod.Status.ContainerStatuses),
		InitContainerStatuses:                allocationsOf(pod.Status.InitContainerStatuses),
		AllocatedResources:                   pod.Status.AllocatedResources,
		Resources:                            onlyRequests(pod.Status.Resources),
		NodeAllocatableResourceClaimStatuses: pod.Status.NodeAllocatableResourceClaimStatuses,
	}
	return pod, nil
}

// TransformNode is the cache transform of nodes. It keeps virtual nodes but for their managedFields, and of any other node its
// identity, labels, taints, resources and conditions, and whether it is cordoned. Other objects pass untouched. It changes the
// node that it is given, and a second call changes nothing.
func TransformNode(obj any) (any, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	node.ManagedFields = nil
	if node.Labels[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue {
		return node, nil
	}
	labels := node.Labels
	node.ObjectMeta = identity(node.ObjectMeta)
	node.Labels = labels
	node.Spec = corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints}
	node.Status = corev1.NodeStatus{
		Capacity:    node.Status.Capacity,
		Allocatable: node.Status.Allocatable,
		Conditions:  node.Status.Conditions,
	}
	return node, nil
}

func isOurs(pod *corev1.Pod) bool {
	_, delegate := pod.Labels[v1alpha1.LabelParentUID]
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "PodChaperon" {
		delegate = true // Of a PodChaperon that was made by hand, without labels.
	}
	return delegate || pod.Spec.SchedulerName == v1alpha1.SchedulerName
}

func identity(meta metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              meta.Name,
		Namespace:         meta.Namespace,
		UID:               meta.UID,
		ResourceVersion:   meta.ResourceVersion,
		DeletionTimestamp: meta.DeletionTimestamp,
	}
}

func requestsOf(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		kept = append(kept, corev1.Container{
			Name:          containers[i].Name,
			Resources:     corev1.ResourceRequirements{Requests: containers[i].Resources.Requests},
			RestartPolicy: containers[i].RestartPolicy,
		})
	}
	return kept
}

// allocationsOf keeps what differs from the spec while a container is resized in place; most containers never are, and the
// kubelet reports their allocation all the same.
func allocationsOf(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		if statuses[i].AllocatedResources == nil && statuses[i].Resources == nil {
			continue
		}
		kept = append(kept, corev1.ContainerStatus{
			Name:               statuses[i].Name,
			AllocatedResources: statuses[i].AllocatedResources,
			Resources:          onlyRequests(statuses[i].Resources),
		})
	}
	return kept
}

func onlyRequests(resources *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if resources == nil {
		return nil
	}
	return &corev1.ResourceRequirements{Requests: resources.Requests}
}

func resizeConditions(conditions []corev1.PodCondition) []corev1.PodCondition {
	for _, condition := range conditions {
		if condition.Type == corev1.PodResizePending {
			return []corev1.PodCondition{{Type: condition.Type, Status: condition.Status, Reason: condition.Reason}}
		}
	}
	return nil
}
