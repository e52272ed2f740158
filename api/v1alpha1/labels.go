package v1alpha1

const prefix = GroupName + "/"

// The keys that users set on objects.
const (
	// LabelEnabledNamespace with the value LabelEnabledNamespaceValue enables a namespace: its pods can be elected.
	LabelEnabledNamespace      = "multicluster-scheduler"
	LabelEnabledNamespaceValue = "enabled"

	// LabelSources on a namespace of a target decides whether ClusterSources may use it. With LabelSourcesExcluded,
	// they may not, unless their selector names it. With LabelSourcesAllowed, they may, even if the namespace is one
	// that is left out by default.
	LabelSources         = prefix + "sources"
	LabelSourcesExcluded = "excluded"
	LabelSourcesAllowed  = "allowed"

	// AnnotationElect elects a pod by its presence. By convention, the value is empty.
	AnnotationElect = prefix + "elect"
	// AnnotationNoReservation has no effect, and is accepted for compatibility: a pod is never reserved in several
	// targets.
	AnnotationNoReservation = prefix + "no-reservation"
	// AnnotationProxyConstraints is the YAML of a PodSpec. Its nodeSelector, tolerations, affinity and
	// topologySpreadConstraints choose the virtual node.
	AnnotationProxyConstraints = prefix + "proxy-pod-scheduling-constraints"
	// AnnotationUseSpecConstraints makes the spec's own constraints choose the virtual node, and not the target's node.
	AnnotationUseSpecConstraints = prefix + "use-constraints-from-spec-for-proxy-pod-scheduling"
	// AnnotationNoPrefixLabelRegexp is a regular expression (RE2). Labels whose key=value it matches keep their key on
	// the delegate.
	AnnotationNoPrefixLabelRegexp = prefix + "no-prefix-label-regexp"
	// AnnotationUseExisting on a pod lists objects that are not followed because the targets have their own, for
	// example "secrets/registry,configmaps/ca". An empty value lists everything that the pod refers to. The kinds are
	// secrets, configmaps, resourceclaims and resourceclaimtemplates. The last two are never followed. On a
	// NetworkPolicy, whatever its value, it says that targets have policies of their own.
	AnnotationUseExisting = prefix + "use-existing"

	// AnnotationPodIdentity on a pod decides whose fields its containers see by the downward API, and whose host name:
	// the proxy's, which is the default, or the delegate's. It counts when the delegate is made.
	AnnotationPodIdentity = prefix + "pod-identity"
	PodIdentityProxy      = "proxy"
	PodIdentityDelegate   = "delegate"

	// AnnotationFenceAfter on a pod has its delegate stopped by the target when the target has not heard of the source
	// for so many seconds. An empty value, or 0, turns the target's default off. On a PodChaperon, it is the value that
	// counts.
	AnnotationFenceAfter = prefix + "fence-after-seconds"

	// AnnotationKeepOff with the value "false" on a DaemonSet that is being created keeps admission from giving it the
	// node affinity that keeps its pods off virtual nodes.
	AnnotationKeepOff = prefix + "keep-off-virtual-nodes"
	// AnnotationAcknowledge with the value "false" on the pod of a DaemonSet leaves it Pending on a virtual node.
	AnnotationAcknowledge = prefix + "acknowledge"

	// AnnotationFollow on a ServiceAccount or PersistentVolumeClaim is a permission by its presence: the object is
	// copied to the targets whose delegates refer to it.
	AnnotationFollow = prefix + "follow"
	// AnnotationGlobal with the value "true" on a Service or Ingress copies the object to every target.
	AnnotationGlobal = prefix + "global"

	// AnnotationAcceptEpoch on a ClusterTarget or Target accepts that the target was set back. The value is the epoch
	// in the status, so that it accepts this once only.
	AnnotationAcceptEpoch = prefix + "accept-epoch"
)

// The keys that this system sets on objects.
const (
	// AnnotationOriginalConstraints on a proxy holds the user's own scheduling constraints as compact JSON
	// (translate.Constraints). Only the admission webhook writes it, and replaces a value from the user.
	AnnotationOriginalConstraints = prefix + "original-constraints"

	// LabelParentUID on a PodChaperon and its delegate is the UID of the proxy.
	LabelParentUID = prefix + "parent-uid"
	// LabelParentClusterName is the configured clusterName of the source. It is absent if none is configured.
	LabelParentClusterName = prefix + "parent-cluster-name"
	// LabelParentClusterID is the ID of the source cluster (the UID of its namespace kube-system). No source touches
	// the objects of another source.
	LabelParentClusterID = prefix + "parent-cluster-id"
	// LabelTargetID distinguishes the PodChaperons and copies of siblings: (Cluster)Targets that lead to the same
	// cluster. The value is translate.TargetID of the target.
	LabelTargetID = prefix + "target-id"
	// LabelTargetHash is the short form of LabelTargetID, translate.TargetHash. Versions before LabelTargetID wrote it
	// alone. For objects with LabelTargetID, it decides nothing.
	LabelTargetHash = prefix + "target-hash"
	// AnnotationProof on a PodChaperon proves that this source made it for this proxy and this target. Package proof
	// makes and verifies the value. A delegate does not have it.
	AnnotationProof = prefix + "proof"
	// AnnotationParentName and AnnotationParentNamespace name the proxy.
	AnnotationParentName      = prefix + "parent-name"
	AnnotationParentNamespace = prefix + "parent-namespace"
	// AnnotationKeepsLabels on a PodChaperon says that it has the labels of its proxy under their own keys, too, and
	// goes on having them, whatever the target's policy says by now. Its value is empty.
	AnnotationKeepsLabels = prefix + "keeps-labels"
	// AnnotationParentLabels and AnnotationParentAnnotations on a PodChaperon and its delegate are the proxy's labels
	// and annotations, as a kubelet writes them into files. They are there if the pod's downward API refers to them.
	AnnotationParentLabels      = prefix + "parent-labels"
	AnnotationParentAnnotations = prefix + "parent-annotations"
	// AnnotationParentLabelPrefix and AnnotationParentAnnotationPrefix, with a hash of its key, are a single label or
	// annotation of the proxy, for the same purpose. User's annotations are on the delegate anyway.
	AnnotationParentLabelPrefix      = prefix + "parent-label-"
	AnnotationParentAnnotationPrefix = prefix + "parent-annotation-"
	// AnnotationDeletionGracePeriod on a PodChaperon makes the target delete the delegate, and then the PodChaperon.
	// The value is the grace period in seconds; if it is empty, the delegate's own applies.
	AnnotationDeletionGracePeriod = prefix + "deletion-grace-period-seconds"
	// AnnotationWithdrawn on a PodChaperon makes the target delete the delegate if it has no node, and then the
	// PodChaperon. Once the delegate has a node, the annotation means nothing. Its value is empty.
	AnnotationWithdrawn = prefix + "withdrawn"

	// AnnotationRevision on a PodChaperon says of which state of the proxy it was made: the number of changes since it
	// was created, a hyphen, and a hash of what may change in the proxy. A delegate has the revision that was applied
	// to it. The target applies a PodChaperon to its delegate when the number is greater than the delegate's.
	AnnotationRevision = prefix + "revision"
	// AnnotationApplied on a delegate has a hash of each value that the target's manager took from the PodChaperon, as
	// JSON. So a later change touches no value that others gave the delegate.
	AnnotationApplied = prefix + "applied"

	// AnnotationFencedAfter on a bound proxy is the value of AnnotationFenceAfter of its PodChaperon. It is there if
	// the target stops the delegate after this time. Admission removes a value from the user.
	AnnotationFencedAfter = prefix + "fenced-after-seconds"

	// AnnotationWantedAnnotations on a PodChaperon and its delegate says which annotations that others in the target
	// give the delegate the proxy is to have, too: keys, or domains with "/*", separated by commas.
	AnnotationWantedAnnotations = prefix + "wanted-annotations"
	// AnnotationFromTarget on a bound proxy names its annotations that come from the delegate: a hash of them all, then
	// each key, "=" and a hash of its value, separated by spaces. An annotation with another value is the user's.
	// Earlier versions wrote no hashes of values. Admission removes a value from the user.
	AnnotationFromTarget = prefix + "annotations-from-target"

	// AnnotationFollowedBy on a copy in a target is the user name in the target of the source that created the copy. An
	// admission policy in the target enforces this value.
	AnnotationFollowedBy = prefix + "followed-by"
	// AnnotationNeededAt on a copy is the last time at which a pod that needs the copy was about to be placed, in RFC
	// 3339.
	AnnotationNeededAt = prefix + "needed-at"
	// AnnotationFollowedTo on a PersistentVolumeClaim in the source names the target that has the claim's copy: NAME of
	// a ClusterTarget, or NAMESPACE/NAME of a Target. Empty, it says that there is no copy, or that it is given up.
	AnnotationFollowedTo = prefix + "followed-to"
	// AnnotationFollowedToClusterID is the ID of that target's cluster, because the target may lead to another cluster
	// later. It is absent if the ID is unknown, and means nothing without AnnotationFollowedTo.
	AnnotationFollowedToClusterID = prefix + "followed-to-cluster-id"
	// AnnotationIsDelegate marks the copy of a Service or Ingress. AnnotationOriginalSelector holds the user's own
	// selector of a Service whose selector was rewritten, as "key=value,key=value".
	AnnotationIsDelegate       = prefix + "is-delegate"
	AnnotationOriginalSelector = prefix + "original-selector"
)

// The Leases in a target, and their annotations.
const (
	// LeaseManager is the name of the Lease of the target's manager.
	LeaseManager = "manager"
	// AnnotationEpoch on the Lease of a source is the epoch, as in the source's TargetStatus.
	AnnotationEpoch = prefix + "epoch"
	// AnnotationReadsByNamespace on the Lease of a source says that its version needs no right to read PodChaperons and
	// copies in the whole cluster. Its value is empty.
	AnnotationReadsByNamespace = prefix + "reads-by-namespace"
	// AnnotationFences on the Lease of the target's manager says that its version fences delegates. Its value is empty.
	AnnotationFences = prefix + "fences"
	// AnnotationChanges on the Lease of the target's manager says that its version applies changes of PodChaperons to
	// their delegates. Its value is empty.
	AnnotationChanges = prefix + "applies-changes"
	// AnnotationSpares on the Lease of the target's manager says that its version knows AnnotationWithdrawn. Its
	// value is spec.renewTime in UTC, in RFC 3339 and without zeros at the end. A manager of an earlier version leaves
	// the annotation as it is when it renews the Lease.
	AnnotationSpares = prefix + "spares-withdrawn"
	// AnnotationNextHolder on the Lease of the source's leader, in the source, is the holder to which that leader left
	// the Leases in targets when it stopped. The next leader takes them over at once.
	AnnotationNextHolder = prefix + "next-holder"
)

// The keys of the taints of virtual nodes to which no new pods go for a while. The effect is NoSchedule.
const (
	// TaintSilent means that the target's manager is silent.
	TaintSilent = prefix + "silent"
	// TaintUnresponsive means that the target's API server does not answer well.
	TaintUnresponsive = prefix + "unresponsive"
)

// The names and labels of virtual nodes and of the pods on them.
const (
	// SchedulerName is the scheduler of proxies.
	SchedulerName = "admiralty-proxy"

	// LabelNodeType and LabelNodeProvider mark virtual nodes. LabelNodeProvider is also the key of their taint.
	LabelNodeType          = "type"
	LabelNodeTypeValue     = "virtual-kubelet"
	LabelNodeProvider      = "virtual-kubelet.io/provider"
	LabelNodeProviderValue = "admiralty"
	// LabelNodeRole makes kubectl print the role "cluster".
	LabelNodeRole      = "kubernetes.io/role"
	LabelNodeRoleValue = "cluster"
	// LabelClusterTargetName, LabelTargetNamespace and LabelTargetName on a virtual node name its target.
	LabelClusterTargetName = prefix + "cluster-target-name"
	LabelTargetNamespace   = prefix + "target-namespace"
	LabelTargetName        = prefix + "target-name"
)

// ClusterSummaryName is the name of the one ClusterSummary of a cluster.
const ClusterSummaryName = "singleton"

// FieldOwner is the name of this system in managedFields.
const FieldOwner = "multicluster-scheduler"
