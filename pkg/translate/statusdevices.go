package translate

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// onlyOwnDevices keeps the health of the devices that the containers of the proxy's spec request. API servers refuse
// the whole status if it has other devices, which the target's admission may have added to the delegate, or values that
// they do not know.
func onlyOwnDevices(status *corev1.PodStatus, spec *corev1.PodSpec) {
	for _, of := range []struct {
		statuses   []corev1.ContainerStatus
		containers []corev1.Container
	}{
		{status.InitContainerStatuses, spec.InitContainers}, {status.ContainerStatuses, spec.Containers},
		{status.EphemeralContainerStatuses, nil}, // These request no devices.
	} {
		for i := range of.statuses {
			s := &of.statuses[i]
			s.AllocatedResourcesStatus = devicesOf(s.AllocatedResourcesStatus, containerOf(of.containers, s.Name))
		}
	}
}

// devicesOf returns what is said of devices that the container requests, once of each request, in order: kubelets give
// another order each time.
func devicesOf(all []corev1.ResourceStatus, container *corev1.Container) []corev1.ResourceStatus {
	if len(all) == 0 || container == nil {
		return nil
	}
	var names []corev1.ResourceName
	for name := range container.Resources.Requests {
		names = append(names, name)
	}
	for _, claim := range container.Resources.Claims {
		name := "claim:" + claim.Name
		if claim.Request != "" {
			name += "/" + claim.Request
		}
		names = append(names, corev1.ResourceName(name))
	}
	var kept []corev1.ResourceStatus
	for _, status := range all {
		if at := slices.Index(names, status.Name); at >= 0 {
			names = slices.Delete(names, at, at+1)
			kept = append(kept, corev1.ResourceStatus{Name: status.Name, Resources: knownHealth(status.Resources)})
		}
	}
	slices.SortFunc(kept, func(a, b corev1.ResourceStatus) int { return cmp.Compare(a.Name, b.Name) })
	return kept
}

// knownHealth leaves out what API servers do not know, and all but the first statement about a device.
func knownHealth(all []corev1.ResourceHealth) []corev1.ResourceHealth {
	known := []corev1.ResourceHealthStatus{
		corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown,
	}
	seen := map[corev1.ResourceID]bool{}
	var kept []corev1.ResourceHealth
	for _, health := range all {
		if !slices.Contains(known, health.Health) || seen[health.ResourceID] {
			continue
		}
		seen[health.ResourceID] = true
		if m := health.Message; m != nil && (*m == "" || len(*m) > corev1.ResourceHealthMessageMaxLength) {
			health.Message = nil
		}
		kept = append(kept, health)
	}
	slices.SortFunc(kept, func(a, b corev1.ResourceHealth) int { return cmp.Compare(a.ResourceID, b.ResourceID) })
	return kept
}
