// Package restriction decides which delegates the administrators of a target allow, by the rules of the ClusterSources
// and Sources. It does not look at the labels of namespaces, which others may write.
//
// The source of a PodChaperon is not known for sure, because a source writes the labels of its PodChaperons itself. So
// a delegate has to meet the rules of each ClusterSource, and of each Source of its namespace. A lax source is
// restricted by the rules of a strict one, and never the reverse. The namespaces that a ClusterSource selects make no
// difference here. A source keeps its delegates in a namespace that is no longer selected, and they may be created
// again.
//
// The pod to check is the pod that the API server would store, after its defaults and mutating webhooks (a dry run).
// The annotations of a pod, which the source chooses, can make webhooks add privileged containers or host paths. A
// check of the request would not see them. It would also refuse pods that a webhook makes fit.
//
// A rule that cannot be understood, such as a level of a newer version, refuses every delegate.
package restriction
