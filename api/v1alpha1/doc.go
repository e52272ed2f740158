// Package v1alpha1 holds the API of the multicluster scheduler. Target, ClusterTarget, Source and ClusterSource connect
// clusters. A PodChaperon requests a pod in a target cluster. A ClusterSummary publishes the capacity of a target
// cluster. Also holds the keys and condition types that the parts share.
//
// The names and meanings are those of Admiralty multicluster-scheduler v0.8 to v0.17. New fields are additive and
// optional.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.admiralty.io
package v1alpha1
