// Package restriction decides which delegates the administrators of a target allow, by the rules of the ClusterSources
// and Sources. It does not look at the labels of namespaces, which others may write.
//
// The cluster ID of a PodChaperon tells its source, because the admission policy lets a source use only the ID in its
// spec.clusterID. A delegate has to meet the rules of all ClusterSources with this ID, and of all Sources of its
// namespace with this ID. A source without spec.clusterID may use any ID, so its rules apply to all PodChaperons. If no
// source has the ID of a PodChaperon, or if it has none, then all rules apply: an administrator wrote it, or a user
// whose role was bound by hand. The namespaces that a ClusterSource selects make no difference here. A source keeps its
// delegates in a namespace that is no longer selected, and they may be created again.
//
// The pod to check is the pod that the API server would store, after its defaults and mutating webhooks (a dry run).
// The annotations of a pod, which the source chooses, can make webhooks add privileged containers or host paths. A
// check of the request would not see them. It would also refuse pods that a webhook makes fit.
//
// Whatever the rules say, no delegate runs under the service account of a source or of the manager. These accounts are
// in namespaces that other sources may use. The request is checked, and again what the API server stored.
//
// The same lists say who may have a PodChaperon: see Claim. Package fence asks this of those who renew Leases.
//
// A rule that cannot be understood, such as a level of a newer version, refuses every delegate.
package restriction
