package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSummary says what a cluster has and what is free there, to the source clusters that may use it. There is one, named
// singleton, written by the cluster's own manager. Its labels are those that have one value over all of the cluster's nodes.
//
// Virtual nodes never count. All quantities are sums or maxima over the schedulable nodes: Ready and not cordoned.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mcsum,categories=multicluster
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'singleton'",message="the ClusterSummary of a cluster is named singleton"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="CPU",type=string,JSONPath=`.allocatable.cpu`
// +kubebuilder:printcolumn:name="Memory",type=string,JSONPath=`.allocatable.memory`
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.allocatable.pods`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterSummary struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Capacity is the sum of the nodes' capacities.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Allocatable is the sum of the nodes' allocatable resources, in use or not.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// +optional
	Status ClusterSummaryStatus `json:"status,omitempty"`
}

// ClusterSummaryStatus is what is in use and what is free.
type ClusterSummaryStatus struct {
	// Nodes counts the schedulable nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// KubernetesVersion of the API server, as in v1.37.1.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Requested is what the pods on those nodes request, as kube-scheduler counts it; pods counts them.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// Sources is the part of requested that is due to the delegates of each source.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	Sources []SourceUsage `json:"sources,omitempty"`
	// LargestFree is, for each resource by itself, the most that is free on one node: a pod that requests more than this
	// of any resource fits on no node. A pod that requests less may still fit on none.
	// +optional
	LargestFree corev1.ResourceList `json:"largestFree,omitempty"`
}

// SourceUsage is what one source's delegates request.
type SourceUsage struct {
	// ClusterID is the source's, as in the label multicluster.admiralty.io/parent-cluster-id.
	ClusterID string `json:"clusterID"`
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
}

// ClusterSummaryList is a list of ClusterSummaries.
//
// +kubebuilder:object:root=true
type ClusterSummaryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterSummary `json:"items"`
}
