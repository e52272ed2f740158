// Package source gives source clusters their identity and rights in this cluster, the target: for each Source and
// ClusterSource a service account, if it names one that does not exist, and bindings of its user or service account to two
// ClusterRoles of the chart. The rights to run pods come by a RoleBinding in the namespace of a Source, or by a ClusterRoleBinding for
// a ClusterSource; the right to read the ClusterSummary comes by a ClusterRoleBinding for both, since there is one for the
// whole cluster.
//
// Nothing carries a finalizer. What a Source or ClusterSource may own, by Kubernetes' rules, is garbage-collected with it. The one thing
// that it may not, the ClusterRoleBinding of a Source, carries the Source's name in its own and is deleted when the
// Source is: on the deletion's event, or at the next start, where every binding that exists is compared with its Source.
//
// A service account that exists is used as it is and never deleted. One that was made here carries a label and an owner reference for each Source
// and ClusterSource that uses it; it goes with the last. The service accounts of others are not watched (a cluster may have tens of
// thousands): if one is deleted, the binding waits for its return.
package source
