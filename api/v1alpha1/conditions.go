package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Condition types of Target, ClusterTarget, Source and ClusterSource.
const (
	// ConditionConnected, on a target: its API server answers with the rights that the source needs.
	ConditionConnected = "Connected"
	// ConditionReady, on a target: its virtual node takes pods. On a source: its identity and rights exist.
	ConditionReady = "Ready"
)

// Reasons of ConditionConnected.
const (
	ReasonConnected         = "Connected"
	ReasonConnecting        = "Connecting"
	ReasonSecretNotFound    = "SecretNotFound"
	ReasonSecretKeyNotFound = "SecretKeyNotFound"
	ReasonInvalidKubeconfig = "InvalidKubeconfig"
	ReasonUnreachable       = "Unreachable"
	ReasonUnauthorized      = "Unauthorized"
	ReasonForbidden         = "Forbidden"
	ReasonNotInstalled      = "NotInstalled" // the target lacks our kinds or its manager publishes no ClusterSummary
)

// Reasons of ConditionReady.
const (
	ReasonNodeReady    = "NodeReady"
	ReasonNodeNotReady = "NodeNotReady"
	ReasonNotConnected = "NotConnected"
	ReasonNodeConflict = "NodeConflict" // a node of that name exists that is not ours
	ReasonReady        = "Ready"
	ReasonFailed       = "Failed"
)

// ConditionDelegate is a condition of PodChaperons, False when there is no delegate to wait for, for one of the reasons below;
// it is absent otherwise. It never reaches the proxy's status.
const ConditionDelegate corev1.PodConditionType = prefix + "Delegate"

// Reasons of ConditionDelegate.
const (
	// ReasonDelegateRefused: the target's admission (quota, PodSecurity, a webhook, validation) refused the delegate; the
	// message is the target's own.
	ReasonDelegateRefused = "Refused"
	// ReasonDelegateTerminating: the delegate is being deleted in the target, not by its PodChaperon's deletion.
	ReasonDelegateTerminating = "Terminating"
	// ReasonDelegateGone: the delegate was deleted in the target.
	ReasonDelegateGone = "Gone"
)
