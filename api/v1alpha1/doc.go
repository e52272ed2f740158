// Package v1alpha1 holds the API of the multicluster scheduler: how clusters are connected (Target, ClusterTarget, Source,
// ClusterSource), how a pod is asked for in a target cluster (PodChaperon), and what a target cluster says of its
// room (ClusterSummary), with the keys and condition types that the parts agree on.
//
// The names and meanings are those of Admiralty multicluster-scheduler v0.8 to v0.17; new fields are additive and optional.
//
// +kubebuilder:object:generate=true
// +groupName=multicluster.admiralty.io
package v1alpha1
