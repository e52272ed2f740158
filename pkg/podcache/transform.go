package podcache

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// Transform is the cache transform of pods. It changes the given pod; a second call changes nothing. Other objects pass
// unchanged. It keeps these fields:
//   - Of all pods: identity and node, phase and addresses.
//   - Of pods that belong to a node: the kind of their controller.
//   - Of all pods except those that run only on virtual nodes: the fields that PodRequests of
//     k8s.io/component-helpers/resource reads.
//   - Of proxies and delegates: the whole status, the marks that make a pod ours, and the fields about its
//     beginning and its end. Feedback and the chaperon controller also read readiness gates, and the names of volumes
//     whose health a status may report.
//   - Of delegates: the result of AddedAnnotations.
//   - Of proxies: the results of Needs and Fingerprint, the names of containers, and the devices that they request, or
//     all resources if the spec was changed.
func Transform(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	whole := *pod
	*pod = corev1.Pod{
		TypeMeta:   whole.TypeMeta,
		ObjectMeta: identity(whole.ObjectMeta),
		Spec:       corev1.PodSpec{NodeName: whole.Spec.NodeName},
	}
	keepTie(pod, &whole)
	if !onlyVirtual(&whole) {
		pod.Spec.Containers = requestsOf(whole.Spec.Containers)
		pod.Spec.InitContainers = requestsOf(whole.Spec.InitContainers)
		pod.Spec.Overhead = whole.Spec.Overhead
		pod.Spec.Resources = onlyRequests(whole.Spec.Resources)
	}
	if isOurs(&whole) {
		addOurs(pod, &whole)
		return pod, nil
	}
	pod.Status = corev1.PodStatus{
		Phase:                                whole.Status.Phase,
		PodIPs:                               whole.Status.PodIPs,
		Conditions:                           resizeConditions(whole.Status.Conditions),
		ContainerStatuses:                    allocationsOf(whole.Status.ContainerStatuses),
		InitContainerStatuses:                allocationsOf(whole.Status.InitContainerStatuses),
		AllocatedResources:                   whole.Status.AllocatedResources,
		Resources:                            onlyRequests(whole.Status.Resources),
		NodeAllocatableResourceClaimStatuses: whole.Status.NodeAllocatableResourceClaimStatuses,
	}
	return pod, nil
}

// addOurs adds the fields that are kept only of proxies and delegates.
func addOurs(pod, whole *corev1.Pod) {
	pod.Labels = only(whole.Labels, v1alpha1.LabelParentUID, v1alpha1.LabelParentClusterID)
	pod.Annotations = only(whole.Annotations,
		v1alpha1.AnnotationElect, v1alpha1.AnnotationOriginalConstraints, v1alpha1.AnnotationFencedAfter,
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationFromTarget, annotationNeeds, annotationFingerprint,
		annotationAdded, annotationRestartPolicy)
	keepAdded(pod, whole)
	pod.Generation = whole.Generation
	if onlyVirtual(whole) {
		keepContainers(pod, whole)
	}
	if whole.Spec.SchedulerName == v1alpha1.SchedulerName {
		for i := range whole.Spec.EphemeralContainers {
			named := corev1.EphemeralContainer{}
			named.Name = whole.Spec.EphemeralContainers[i].Name
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, named)
		}
		keepNeeds(pod, whole)
		keepFingerprint(pod, whole)
		keepRestartPolicy(pod, whole)
	}
	pod.CreationTimestamp = whole.CreationTimestamp
	pod.Finalizers = whole.Finalizers
	pod.DeletionGracePeriodSeconds = whole.DeletionGracePeriodSeconds
	if owner := metav1.GetControllerOf(whole); owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	pod.Spec.SchedulerName = whole.Spec.SchedulerName
	pod.Spec.TerminationGracePeriodSeconds = whole.Spec.TerminationGracePeriodSeconds
	pod.Spec.ReadinessGates = whole.Spec.ReadinessGates
	for i := range whole.Spec.Volumes {
		if volume := &whole.Spec.Volumes[i]; mayHaveHealth(volume) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: volume.Name})
		}
	}
	pod.Status = whole.Status
}

// keepContainers keeps the names of a proxy's containers and their devices, or all resources if the spec was changed.
func keepContainers(pod, whole *corev1.Pod) {
	changed := whole.Generation > 1
	pod.Spec.Containers = resourcesOf(whole.Spec.Containers, changed)
	pod.Spec.InitContainers = resourcesOf(whole.Spec.InitContainers, changed)
	if changed {
		pod.Spec.Resources = whole.Spec.Resources
		// A second call sees the same pod.
		pod.Spec.NodeSelector = only(whole.Spec.NodeSelector, v1alpha1.LabelNodeProvider)
	}
}

// BelongsToNode says whether a pod, which may come from the cache, is a static pod, or of a DaemonSet: it is on the
// node as long as there is a node.
func BelongsToNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// keepTie stores that a pod belongs to its node.
func keepTie(pod, whole *corev1.Pod) {
	if BelongsToNode(whole) {
		owner := metav1.GetControllerOfNoCopy(whole)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: owner.Kind, Controller: owner.Controller}}
	}
}

// onlyVirtual says whether the pod runs only on virtual nodes. Nobody counts requests there.
func onlyVirtual(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == v1alpha1.SchedulerName &&
		pod.Spec.NodeSelector[v1alpha1.LabelNodeProvider] == v1alpha1.LabelNodeProviderValue
}

// mayHaveHealth says whether a status may report the volume's health, because the volume comes from a CSI driver. A
// volume without a source was transformed before.
func mayHaveHealth(volume *corev1.Volume) bool {
	return volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil || volume.CSI != nil ||
		volume.VolumeSource == corev1.VolumeSource{}
}

// only returns the entries of a map that have these keys.
func only(all map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := all[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}

// TransformNode is the cache transform of nodes. It changes the given node; a second call changes nothing. Other
// objects pass unchanged. Of a virtual node it drops only managedFields. Of any other node it keeps the identity,
// labels, taints, resources, conditions and addresses, its ranges of pod addresses, and whether it is cordoned.
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
	node.Spec = corev1.NodeSpec{
		PodCIDRs: node.Spec.PodCIDRs, Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints,
	}
	node.Status = corev1.NodeStatus{
		Capacity:    node.Status.Capacity,
		Allocatable: node.Status.Allocatable,
		Conditions:  node.Status.Conditions,
		Addresses:   node.Status.Addresses,

		DeclaredFeatures: node.Status.DeclaredFeatures,
	}
	return node, nil
}

func isOurs(pod *corev1.Pod) bool {
	_, delegate := pod.Labels[v1alpha1.LabelParentUID]
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "PodChaperon" {
		delegate = true // A user created the PodChaperon by hand, without labels.
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

// requestsOf keeps what counts of containers. A second call gets proxies, too, whose claims stay.
func requestsOf(containers []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		r := containers[i].Resources
		kept = append(kept, corev1.Container{
			Name:          containers[i].Name,
			Resources:     corev1.ResourceRequirements{Requests: r.Requests, Claims: r.Claims},
			RestartPolicy: containers[i].RestartPolicy,
		})
	}
	return kept
}

// resourcesOf keeps the names of a proxy's containers, and the devices that they request, because a proxy shows the
// statuses of its own containers and devices only. If the proxy was resized, its status is compared with all resources.
func resourcesOf(containers []corev1.Container, resources bool) []corev1.Container {
	var kept []corev1.Container
	for i := range containers {
		c := corev1.Container{Name: containers[i].Name, RestartPolicy: containers[i].RestartPolicy}
		if resources {
			c.Resources = containers[i].Resources
		} else {
			c.Resources.Claims = containers[i].Resources.Claims
			c.Resources.Requests = devicesOf(containers[i].Resources.Requests)
		}
		kept = append(kept, c)
	}
	return kept
}

// devicesOf keeps the requests for resources that plug-ins provide: their names have a domain.
func devicesOf(requests corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, amount := range requests {
		if strings.Contains(string(name), "/") {
			if kept == nil {
				kept = corev1.ResourceList{}
			}
			kept[name] = amount
		}
	}
	return kept
}

// allocationsOf keeps the allocated resources, which differ from the spec while a container is resized in place.
// Statuses without them are dropped.
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
	c := translate.PodCondition(conditions, corev1.PodResizePending)
	if c == nil {
		return nil
	}
	return []corev1.PodCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason}}
}
