package v1alpha1

const prefix = GroupName + "/"

// Keys that users put on pods and namespaces.
const (
	// LabelEnabledNamespace, with the value LabelEnabledNamespaceValue, lets the pods of a namespace be elected.
	LabelEnabledNamespace      = "multicluster-scheduler"
	LabelEnabledNamespaceValue = "enabled"

	// AnnotationElect elects a pod; its presence counts, its value is by convention empty.
	AnnotationElect = prefix + "elect"
	// AnnotationNoReservation is accepted for compatibility: pods are never reserved in several targets.
	AnnotationNoReservation = prefix + "no-reservation"
	// AnnotationProxyConstraints is the YAML of a PodSpec of which nodeSelector, tolerations, affinity and
	// topologySpreadConstraints choose the virtual node.
	AnnotationProxyConstraints = prefix + "proxy-pod-scheduling-constraints"
	// AnnotationUseSpecConstraints lets the spec's own constraints choose the virtual node instead of the target's node.
	AnnotationUseSpecConstraints = prefix + "use-constraints-from-spec-for-proxy-pod-scheduling"
	// AnnotationNoPrefixLabelRegexp is an RE2; labels whose key=value match it keep their key on the delegate.
	AnnotationNoPrefixLabelRegexp = prefix + "no-prefix-label-regexp"
	// AnnotationUseExisting, on a pod, lists what is not followed because the targets have their own, as in
	// "secrets/registry,configmaps/ca"; empty is everything that the pod refers to.
	AnnotationUseExisting = prefix + "use-existing"

	// AnnotationFollow, on a ServiceAccount or PersistentVolumeClaim, has it made in the targets whose delegates refer to it; its
	// presence counts.
	AnnotationFollow = prefix + "follow"
	// AnnotationGlobal, on a Service or Ingress, with the value "true", has it followed to every target.
	AnnotationGlobal = prefix + "global"
)

// Keys that this system puts on objects.
const (
	// AnnotationOriginalConstraints, on a proxy, holds the scheduling constraints that the user wrote, as compact JSON
	// (translate.Constraints). It is written by the admission webhook only; what a user supplies is replaced.
	AnnotationOriginalConstraints = prefix + "original-constraints"

	// LabelParentUID, on a PodChaperon and its delegate, is the UID of the proxy.
	LabelParentUID = prefix + "parent-uid"
	// LabelParentClusterName is the clusterName of the source's installation; absent where none is configured.
	LabelParentClusterName = prefix + "parent-cluster-name"
	// LabelParentClusterID is the ID of the source cluster (the UID of its namespace kube-system): nobody touches the
	// objects of another source.
	LabelParentClusterID = prefix + "parent-cluster-id"
	// LabelTargetHash tells the PodChaperons of one (Cluster)Target from those of another that leads to the same
	// cluster; its value is translate.TargetHash of the target.
	LabelTargetHash = prefix + "target-hash"
	// AnnotationParentName and AnnotationParentNamespace name the proxy.
	AnnotationParentName      = prefix + "parent-name"
	AnnotationParentNamespace = prefix + "parent-namespace"
	// AnnotationDeletionGracePeriod, put on a PodChaperon, asks the target to delete the delegate with this grace period in
	// seconds, or if it is empty with the delegate's own, and then the PodChaperon.
	AnnotationDeletionGracePeriod = prefix + "deletion-grace-period-seconds"

	// AnnotationFollowedBy, on the copy of an object in a target, is the user name there of the source that made it. An admission
	// policy in the target holds sources to it.
	AnnotationFollowedBy = prefix + "followed-by"
	// AnnotationNeededAt, on a copy, is when a pod was about to be placed that needs it, in RFC 3339.
	AnnotationNeededAt = prefix + "needed-at"
	// AnnotationFollowedTo, on a PersistentVolumeClaim in the source, names the target that has its copy: NAME of a ClusterTarget, or
	// NAMESPACE/NAME of a Target.
	AnnotationFollowedTo = prefix + "followed-to"
	// AnnotationFollowedToClusterID, beside it, is the ID of that target's cluster: the target may lead to another one day. It is absent where that ID is
	// unknown, and means nothing without AnnotationFollowedTo.
	AnnotationFollowedToClusterID = prefix + "followed-to-cluster-id"
	// AnnotationIsDelegate marks the copy of a Service or Ingress; AnnotationOriginalSelector keeps, as "key=value,key=value", the selector that the user
	// wrote of a Service whose selector was rewritten.
	AnnotationIsDelegate       = prefix + "is-delegate"
	AnnotationOriginalSelector = prefix + "original-selector"
)

// Virtual nodes and the pods on them.
const (
	// SchedulerName is the scheduler of proxies.
	SchedulerName = "admiralty-proxy"

	// LabelNodeType and LabelNodeProvider mark virtual nodes; LabelNodeProvider is also the key of their taint.
	LabelNodeType          = "type"
	LabelNodeTypeValue     = "virtual-kubelet"
	LabelNodeProvider      = "virtual-kubelet.io/provider"
	LabelNodeProviderValue = "admiralty"
	// LabelNodeRole makes kubectl print the role "cluster".
	LabelNodeRole      = "kubernetes.io/role"
	LabelNodeRoleValue = "cluster"
	// LabelClusterTargetName, LabelTargetNamespace and LabelTargetName, on a virtual node, name its target.
	LabelClusterTargetName = prefix + "cluster-target-name"
	LabelTargetNamespace   = prefix + "target-namespace"
	LabelTargetName        = prefix + "target-name"
)

// ClusterSummaryName is the name of the one ClusterSummary of a cluster.
const ClusterSummaryName = "singleton"

// FieldOwner names this system's writes in managedFields.
const FieldOwner = "multicluster-scheduler"
