package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// boundAmounts lowers the amounts of resources in the status of a delegate to those of the proxy's spec, and removes
// others. ResourceQuotas and schedulers of the source count the larger one of spec and status. So a target cannot make
// the proxy count for more than the user asked for, nor for less: see ofResize. While a delegate is resized to less,
// the proxy shows the lower amounts at once.
//
// Of a proxy that was not changed, the cache does not keep the spec. Its requirements stay, without amounts: if a
// running container has none, API servers take the node for one that cannot resize.
func boundAmounts(status *corev1.PodStatus, proxy *corev1.Pod) {
	status.Resize = ""
	var of corev1.ResourceRequirements
	containers := map[string]corev1.ResourceRequirements{}
	if proxy.Generation > 1 {
		whole := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
		of.Requests, of.Limits = resourcehelper.PodRequests(proxy, whole), resourcehelper.PodLimits(proxy, whole)
		for _, all := range [][]corev1.Container{proxy.Spec.InitContainers, proxy.Spec.Containers} {
			for i := range all {
				containers[all[i].Name] = all[i].Resources
			}
		}
	}
	status.AllocatedResources = atMost(status.AllocatedResources, of.Requests)
	boundRequirements(status.Resources, of)
	for _, all := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range all {
			of := containers[all[i].Name]
			all[i].AllocatedResources = atMost(all[i].AllocatedResources, of.Requests)
			boundRequirements(all[i].Resources, of)
		}
	}
}

// showSpec shows the amounts of the spec. If a resize is infeasible, quotas count those of the status in place of the
// spec, so a target could choose them.
func showSpec(status *corev1.PodStatus, proxy *corev1.Pod) {
	status.Resources, status.AllocatedResources = nil, nil
	if of := proxy.Spec.Resources; of != nil {
		status.Resources, status.AllocatedResources = of.DeepCopy(), of.Requests.DeepCopy()
	}
	containers := slices.Concat(proxy.Spec.InitContainers, proxy.Spec.Containers)
	for _, all := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses} {
		for i := range all {
			all[i].Resources, all[i].AllocatedResources = nil, nil
			if c := containerOf(containers, all[i].Name); c != nil {
				all[i].Resources, all[i].AllocatedResources = c.Resources.DeepCopy(), c.Resources.Requests.DeepCopy()
			}
		}
	}
}

func boundRequirements(r *corev1.ResourceRequirements, of corev1.ResourceRequirements) {
	if r != nil {
		r.Requests, r.Limits = atMost(r.Requests, of.Requests), atMost(r.Limits, of.Limits)
	}
}

// atMost returns the amounts of the resources that the bound has, too, and none above the bound. It is nil if there are
// none.
func atMost(amounts, bound corev1.ResourceList) corev1.ResourceList {
	var kept corev1.ResourceList
	for name, most := range bound {
		amount, ok := amounts[name]
		if !ok {
			continue
		}
		if amount.Cmp(most) > 0 {
			amount = most
		}
		if kept == nil {
			kept = corev1.ResourceList{}
		}
		kept[name] = amount.DeepCopy()
	}
	return kept
}
