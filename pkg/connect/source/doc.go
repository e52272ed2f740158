// Package source gives source clusters their identity and rights in this cluster, the target. It creates the service
// account of a Source or ClusterSource, if the spec names one that does not exist. It binds the user or the service
// account to two ClusterRoles of the chart.
//
// A Source gets the rights to run pods by a RoleBinding in its namespace, and a ClusterSource by a ClusterRoleBinding.
// Both get the right to read the ClusterSummary by a ClusterRoleBinding, because there is one ClusterSummary for the
// whole cluster.
//
// No object has a finalizer. Kubernetes' garbage collection deletes the objects that a Source or ClusterSource can own.
// A Source cannot own a ClusterRoleBinding. The name of this ClusterRoleBinding contains the Source's name. The
// controller deletes the binding when the Source is deleted: on the event of the deletion, or at the next start, when
// it compares every binding with its Source.
//
// The controller uses an existing service account as it is, and never deletes it. A service account that the controller
// created has a label, and an owner reference for each Source and ClusterSource that uses it; it is deleted with the
// last of them. The controller does not watch other service accounts, because a cluster may have tens of thousands. If
// one is deleted, the binding stays until the service account is back.
package source
