package v1alpha1

import corev1 "k8s.io/api/core/v1"

// The condition types of Target, ClusterTarget, Source and ClusterSource.
const (
	// ConditionConnected on a target means that its API server answers, and grants the rights that the source needs.
	ConditionConnected = "Connected"
	// ConditionReady on a target means that its virtual node takes pods. On a source, it means that the source's
	// identity and rights exist.
	ConditionReady = "Ready"
	// ConditionRestricted is False on an object that still has something that a new default takes away. The next
	// version enforces the default.
	ConditionRestricted = "Restricted"
	// ConditionSecretUsable is False on a target whose Secret was deleted, or became unusable, while the target was
	// connected. The connection goes on with the last credentials until these end.
	ConditionSecretUsable = "SecretUsable"
	// ConditionAwake on a target means that its manager renews its Lease. It is absent if there is no such Lease.
	ConditionAwake = "Awake"
)

// The reasons of ConditionAwake.
const (
	ReasonAwake = "Awake"
	// ReasonSilent means that the target's manager has stopped renewing its Lease.
	ReasonSilent = "Silent"
	// ReasonNoLease is the reason of an event only: a manager that was silent has no Lease any more.
	ReasonNoLease = "NoLease"
)

// The reasons of ConditionRestricted.
const (
	ReasonRestricted = "Restricted"
	// ReasonWouldRefuse means that the next version refuses the object, or a part of its rights.
	ReasonWouldRefuse = "WouldRefuse"
)

// The reasons of ConditionConnected.
const (
	ReasonConnected         = "Connected"
	ReasonConnecting        = "Connecting"
	ReasonSecretNotFound    = "SecretNotFound"
	ReasonSecretKeyNotFound = "SecretKeyNotFound"
	ReasonInvalidKubeconfig = "InvalidKubeconfig"
	ReasonUnreachable       = "Unreachable"
	ReasonUnauthorized      = "Unauthorized"
	ReasonForbidden         = "Forbidden"
	// ReasonNotInstalled means that the target lacks our kinds, or that its manager publishes no ClusterSummary.
	ReasonNotInstalled = "NotInstalled"
	// ReasonNoKey means that this cluster has no key for the proofs that it made PodChaperons.
	ReasonNoKey = "NoKey"
	// ReasonInvalidSummary means that the target is connected, but that the source does not use its ClusterSummary.
	ReasonInvalidSummary = "InvalidSummary"
	// ReasonOverBudget means that the target's answers cost the source more than they may.
	ReasonOverBudget = "OverBudget"
	// ReasonAddressRefused means that Targets of namespaces must not lead to the target's address.
	ReasonAddressRefused = "AddressRefused"
	// ReasonAddressesUnknown means that this cluster cannot list its own addresses, which targets must not claim.
	ReasonAddressesUnknown = "AddressesUnknown"
	// ReasonHeldByOther means that another manager acts in the target as this source: that of a copy of this cluster,
	// say.
	ReasonHeldByOther = "HeldByOther"
	// ReasonTurnedBack means that the target was set back to an earlier state.
	ReasonTurnedBack = "TurnedBack"
	// ReasonOtherCluster means that another cluster answers than the one that the target belongs to.
	ReasonOtherCluster = "OtherCluster"
	// ReasonNoClusterID means that the cluster that answers does not say which one it is.
	ReasonNoClusterID = "NoClusterID"
)

// ReasonCredentialsExpire is the reason of the event that the credentials for a target expire soon.
const ReasonCredentialsExpire = "CredentialsExpire"

// The reasons of ConditionReady.
const (
	ReasonNodeReady    = "NodeReady"
	ReasonNodeNotReady = "NodeNotReady"
	ReasonNotConnected = "NotConnected"
	ReasonReady        = "Ready"
	ReasonFailed       = "Failed"
	// ReasonInvalidSelector means that the namespaceSelector of a ClusterSource is invalid.
	ReasonInvalidSelector = "InvalidSelector"
	// ReasonNodeConflict means that a node with the name of the virtual node exists and is not ours.
	ReasonNodeConflict = "NodeConflict"
)

// ConditionAddresses is a condition of proxies. It is False if the proxy does not show an address that the target
// reports, and absent otherwise. The reason is ReasonAddressRefused, or ReasonAddressOutOfRange if only the ranges that
// the administrators allow forbid the address.
const (
	ConditionAddresses      corev1.PodConditionType = prefix + "Addresses"
	ReasonAddressOutOfRange                         = "AddressOutOfRange"
)

// ConditionDelegate is a condition of PodChaperons. It is False if there is no delegate to wait for, for one of the
// reasons below, and absent otherwise. It never reaches the proxy's status.
const ConditionDelegate corev1.PodConditionType = prefix + "Delegate"

// The reasons of ConditionDelegate.
const (
	// ReasonDelegateRefused means that the target's admission (quota, PodSecurity, a webhook, validation) refused the
	// delegate. The message is the target's own.
	ReasonDelegateRefused = "Refused"
	// ReasonDelegateTerminating means that the delegate is being deleted in the target, and its PodChaperon is not.
	ReasonDelegateTerminating = "Terminating"
	// ReasonDelegateGone means that the delegate was deleted in the target.
	ReasonDelegateGone = "Gone"
)

// LeavesPodsUnknown says whether a reason of ConditionConnected means that nothing is known about the target's pods,
// and not that the target is down. Nothing there is then believed.
func LeavesPodsUnknown(reason string) bool {
	return reason == ReasonHeldByOther || reason == ReasonTurnedBack || reason == ReasonOtherCluster
}

// LeavesNodeUnknown says whether a reason of ConditionConnected means that the source may not act in the target, or
// lacks something of its own, and not that the target is down. Its delegates then run on, so nothing may replace them.
func LeavesNodeUnknown(reason string) bool {
	switch reason {
	case ReasonUnauthorized, ReasonForbidden, ReasonSecretNotFound, ReasonSecretKeyNotFound, ReasonInvalidKubeconfig,
		ReasonNoKey, ReasonAddressesUnknown, ReasonNoClusterID:
		return true
	}
	return LeavesPodsUnknown(reason)
}
