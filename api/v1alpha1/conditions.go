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
	// connected. The connection goes on with the last credentials until these end or the leader changes.
	ConditionSecretUsable = "SecretUsable"
	// ConditionAwake on a target means that its manager renews its Lease. It is absent if there is no such Lease.
	ConditionAwake = "Awake"
	// ConditionResponsive on a target means that its API server answers well. It is absent until this is known. While
	// it is False, no new pods go there, and everything else goes on.
	ConditionResponsive = "Responsive"
)

// The reasons of ConditionResponsive.
const (
	ReasonResponsive = "Responsive"
	// ReasonSlow means that answers take long.
	ReasonSlow = "Slow"
	// ReasonThrottled means that the API server refuses requests because there are too many.
	ReasonThrottled = "Throttled"
	// ReasonFailing means that requests fail: the API server answers with an error of its own, or not at all.
	ReasonFailing = "Failing"
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
	// ReasonStorageFull means that the target's API server answers, and cannot write, because its etcd is full.
	ReasonStorageFull = "StorageFull"
	// ReasonFlapping means that the target answers, but was lost several times of late, so that it has to go on
	// answering for a while before it counts as connected.
	ReasonFlapping = "Flapping"
)

// ReasonCredentialsExpire is the reason of the event that the credentials for a target expire soon.
const ReasonCredentialsExpire = "CredentialsExpire"

// ReasonStatusNotWritten is the reason of the event that the API server refuses the status of a (Cluster)Target.
const ReasonStatusNotWritten = "StatusNotWritten"

// ReasonDelegatesMayRun is the reason of the event that a (Cluster)Target was deleted, and delegates may run on there.
const ReasonDelegatesMayRun = "DelegatesMayRun"

// ReasonFencingDoesNotHold is the reason of the event that a pod is not fenced, although somebody asked for it, or that
// this source cannot rely on fencing in a target that does not answer.
const ReasonFencingDoesNotHold = "FencingDoesNotHold"

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
	// ReasonInvalidExpression means that the target's excludedLabelsRegexp is too large.
	ReasonInvalidExpression = "InvalidExpression"
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
	// ReasonDelegateFenced means that the target stopped the delegate, or does not make it, because it has not heard of
	// the source for long. The target never makes this delegate again.
	ReasonDelegateFenced = "Fenced"
)

// WarningPrefix begins the types of conditions of PodChaperons that show warnings about the delegate. The rest of the
// type is the reason of an event in the target, which is the condition's reason, too. The message is the event's, and
// the transition time is when the event last happened. There are few of them. They never reach the proxy's status: the
// source records them as events of the proxy.
const WarningPrefix = "warning." + prefix

// ConditionAnnotations is a condition of PodChaperons. It is True if others in the target gave the delegate annotations
// that the source wants (AnnotationWantedAnnotations). The message has them as JSON: {"annotations": {key: value},
// "tooLarge": [keys]}. They have 16 KiB at most, and the keys of some that have no room are in tooLarge.
const ConditionAnnotations corev1.PodConditionType = prefix + "Annotations"

// ReasonAnnotationsAdded is the reason of ConditionAnnotations.
const ReasonAnnotationsAdded = "Added"

// ConditionChanges is a condition of PodChaperons and proxies: whether the delegate has the changes that were made to
// the proxy after its creation. On a PodChaperon, observedGeneration is the number of the change (AnnotationRevision).
// True means that the delegate has it, and that its kubelet knows. False means that it does not, for one of the reasons
// below. The condition is absent if nothing was changed, or if the target has not decided yet. A proxy has the
// condition only while it is False.
const ConditionChanges corev1.PodConditionType = prefix + "Changes"

// The reasons of ConditionChanges.
const (
	// ReasonChangesApplied means that the delegate has the changes.
	ReasonChangesApplied = "Applied"
	// ReasonChangesRefused means that the target refuses a change: its API server, a policy there, or the rules for
	// delegates. Or the target gave the delegate other values first. The target's manager tries again from time to
	// time.
	ReasonChangesRefused = "Refused"
	// ReasonChangesUnsupported means that the target's manager is of a version that applies no changes.
	ReasonChangesUnsupported = "Unsupported"
)

// ConditionFields is a condition of PodChaperons and proxies. It is False if the delegate lacks fields that its
// PodChaperon has. Either the target's manager does not know them. Or the target's API server dropped them, because its
// version of Kubernetes does not know them or has them disabled, or a webhook there removed them. The message says
// which. The condition is absent otherwise.
const ConditionFields corev1.PodConditionType = prefix + "Fields"

// ReasonFieldsDropped is the reason of ConditionFields.
const ReasonFieldsDropped = "Dropped"

// LeavesPodsUnknown says whether a reason of ConditionConnected means that nothing is known about the target's pods,
// and not that the target is down. Nothing there is then believed.
func LeavesPodsUnknown(reason string) bool {
	return reason == ReasonHeldByOther || reason == ReasonTurnedBack || reason == ReasonOtherCluster
}

// LeavesNodeUnknown says whether a reason of ConditionConnected means that the source cannot act in the target, or
// lacks something of its own, and not that the target is down. Its delegates then run on, so nothing may replace them.
// Fenced ones do not run on, if the source's Lease is not renewed. Their proxies stay, too: nobody knows. A target
// without a ClusterSummary answers, and the source may go on renewing its Lease there.
func LeavesNodeUnknown(reason string) bool {
	switch reason {
	case ReasonUnauthorized, ReasonForbidden, ReasonSecretNotFound, ReasonSecretKeyNotFound, ReasonInvalidKubeconfig,
		ReasonNoKey, ReasonAddressesUnknown, ReasonNoClusterID, ReasonNotInstalled, ReasonStorageFull:
		return true
	}
	return LeavesPodsUnknown(reason)
}
