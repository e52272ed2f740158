package translate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// ProxyStatus returns the desired status of the proxy, given the delegate's status. It is idempotent, and API servers
// accept the result as an update of the proxy's status.
//
// Most fields are the delegate's. The proxy keeps the fields that its API server made immutable, or validates against
// objects of the source: QoS class, resource claims, observed generations, nominated node. It keeps the condition
// PodScheduled, the conditions of its readiness gates, and conditions that no kubelet reports and the delegate lacks.
//
// Amounts of resources are at most those of the proxy's spec. Amounts, and conditions of a resize, are left out unless
// the proxy was changed. A proxy whose resize is infeasible shows the amounts of its spec. So quotas always count the
// spec.
//
// Containers that the target added to the delegate, as service meshes do, are left out. From Kubernetes 1.35 on, API
// servers refuse a status in which a container that the spec does not have has restarted. So is the health of devices
// that the spec does not request.
//
// The proxy is ready when the delegate is ready and the proxy's own readiness gates are satisfied.
//
// The status of a finished proxy stays the same, and so does the status of a proxy whose delegate has no phase yet.
func ProxyStatus(proxy *corev1.Pod, delegate corev1.PodStatus) corev1.PodStatus {
	if Finished(proxy.Status.Phase) || delegate.Phase == "" {
		return *proxy.Status.DeepCopy()
	}
	own, status := proxy.Status.DeepCopy(), delegate.DeepCopy()
	status.ObservedGeneration = own.ObservedGeneration
	status.NominatedNodeName = own.NominatedNodeName
	status.QOSClass = own.QOSClass
	status.ResourceClaimStatuses = own.ResourceClaimStatuses
	status.ExtendedResourceClaimStatus = own.ExtendedResourceClaimStatus
	status.NodeAllocatableResourceClaimStatuses = own.NodeAllocatableResourceClaimStatuses
	status.VolumeHealth = slices.DeleteFunc(status.VolumeHealth, func(h corev1.PodVolumeHealth) bool {
		return !slices.ContainsFunc(proxy.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == h.Name })
	})
	onlyOwnContainers(status, &proxy.Spec)
	onlyOwnDevices(status, &proxy.Spec)
	boundAmounts(status, proxy)
	status.Conditions = proxyConditions(proxy, delegate.Conditions)
	if pending := PodCondition(status.Conditions, corev1.PodResizePending); pending != nil &&
		pending.Reason == corev1.PodReasonInfeasible {
		showSpec(status, proxy)
	}
	return *status
}

// Finished says whether all containers of a pod in this phase have ended for good.
func Finished(phase corev1.PodPhase) bool {
	return phase == corev1.PodSucceeded || phase == corev1.PodFailed
}

// onlyOwnContainers keeps the statuses of containers that the spec has, in the delegate's order, and one of each.
func onlyOwnContainers(status *corev1.PodStatus, spec *corev1.PodSpec) {
	if len(spec.Containers) == 0 {
		return // No API server has such a pod, so the containers are not known.
	}
	var all, first, debuggers []string
	for i := range spec.Containers {
		all = append(all, spec.Containers[i].Name)
	}
	for i := range spec.InitContainers {
		first = append(first, spec.InitContainers[i].Name)
	}
	for i := range spec.EphemeralContainers {
		debuggers = append(debuggers, spec.EphemeralContainers[i].Name)
	}
	status.ContainerStatuses = statusesOf(status.ContainerStatuses, all)
	status.InitContainerStatuses = statusesOf(status.InitContainerStatuses, first)
	status.EphemeralContainerStatuses = statusesOf(status.EphemeralContainerStatuses, debuggers)
}

// statusesOf returns the first status of each name. It uses names up.
func statusesOf(statuses []corev1.ContainerStatus, names []string) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for i := range statuses {
		if at := slices.Index(names, statuses[i].Name); at >= 0 {
			names = slices.Delete(names, at, at+1)
			kept = append(kept, statuses[i])
		}
	}
	return kept
}

func proxyConditions(proxy *corev1.Pod, delegate []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	own := proxy.Status.Conditions
	for _, c := range delegate {
		resize := ofResize(c.Type) && proxy.Generation <= 1
		if ofProxyOnly(proxy, c.Type) || resize || c.Type == v1alpha1.ConditionDelegate || ofChaperonOnly(c.Type) {
			continue
		}
		if c.Type == corev1.PodReady {
			c = gatedReadiness(proxy, c)
		}
		c.ObservedGeneration = 0
		if previous := PodCondition(own, c.Type); previous != nil {
			c.ObservedGeneration = previous.ObservedGeneration
		}
		out = append(out, c)
	}
	for _, c := range own {
		if ofChaperonOnly(c.Type) || c.Type == v1alpha1.ConditionFields {
			continue // A source of an earlier version copied it, or it was about an earlier delegate.
		}
		if ofProxyOnly(proxy, c.Type) || !ofKubelet(c.Type) && PodCondition(delegate, c.Type) == nil {
			out = append(out, c)
		}
	}
	return out
}

// ofChaperonOnly says whether a condition is a message to the source.
func ofChaperonOnly(conditionType corev1.PodConditionType) bool {
	return IsWarning(conditionType) || conditionType == v1alpha1.ConditionAnnotations
}

func ofProxyOnly(proxy *corev1.Pod, conditionType corev1.PodConditionType) bool {
	return conditionType == corev1.PodScheduled ||
		slices.Contains(proxy.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: conditionType})
}

// ofResize says whether a condition is about a resize. With such a condition, quotas may count the status in place of
// the spec. API servers give a pod its second generation when somebody changes its spec.
func ofResize(conditionType corev1.PodConditionType) bool {
	return conditionType == corev1.PodResizePending || conditionType == corev1.PodResizeInProgress
}

// ofKubelet says whether kubelets own the condition. The proxy loses such a condition when the delegate does not have
// it.
func ofKubelet(conditionType corev1.PodConditionType) bool {
	switch conditionType {
	case corev1.PodReady, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReadyToStartContainers,
		corev1.PodResizePending, corev1.PodResizeInProgress, corev1.AllContainersRestarting:
		return true
	}
	return false
}

// gatedReadiness applies the proxy's readiness gates to the delegate's condition Ready, as a kubelet does, with a
// kubelet's messages. The transition time of a satisfied pod is the latest one of the conditions that explain the
// result. That of another pod is of its first gate that is not satisfied.
func gatedReadiness(proxy *corev1.Pod, ready corev1.PodCondition) corev1.PodCondition {
	if ready.Status != corev1.ConditionTrue {
		return ready
	}
	var messages []string
	result := ready
	for _, gate := range proxy.Spec.ReadinessGates {
		since := ready.LastTransitionTime
		c := PodCondition(proxy.Status.Conditions, gate.ConditionType)
		if c != nil {
			since = c.LastTransitionTime
		}
		if message := unsatisfied(gate, c); message != "" {
			if messages = append(messages, message); len(messages) == 1 {
				result.LastTransitionTime = since
			}
		} else if len(messages) == 0 && result.LastTransitionTime.Before(&since) {
			result.LastTransitionTime = since
		}
	}
	if len(messages) > 0 {
		result.Status, result.Reason = corev1.ConditionFalse, "ReadinessGatesNotReady"
		result.Message = strings.Join(messages, ", ")
	}
	return result
}

// unsatisfied returns the message of a kubelet about a gate whose condition is missing or not True.
func unsatisfied(gate corev1.PodReadinessGate, c *corev1.PodCondition) string {
	switch {
	case c == nil:
		return fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType)
	case c.Status != corev1.ConditionTrue:
		return fmt.Sprintf(`the status of pod readiness gate %q is not "True", but %v`, gate.ConditionType, c.Status)
	}
	return ""
}

// PodCondition returns a pointer to the condition of this type in the list, or nil.
func PodCondition(conditions []corev1.PodCondition, conditionType corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == conditionType })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}
