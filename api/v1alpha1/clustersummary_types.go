package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSummary says what a cluster has and what is free there, to the source clusters that may use it. There is one, named
// singleton, written by the cluster's own manager. Its labels are those that have one value over all of the cluster's nodes.
//
// Virtual nodes never count. Capacity, allocatable, requested and the number of nodes are sums over the schedulable nodes: Ready and
// not cordoned. The classes tell of all nodes.
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
	// ClusterID is this cluster's own: the UID of its namespace kube-system, unless configured. A source knows by it that a target is itself.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
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
	// CommonLabels are those that the nodes of all classes have.
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
	// OmittedLabels are the keys of labels that some nodes have and that neither commonLabels nor classes tell: kubernetes.io/hostname, and
	// those left out to keep the number of classes within its bound, as far as 32 KiB of keys go. Labels that the cluster excludes are not told at all.
	// +optional
	// +listType=set
	OmittedLabels []string `json:"omittedLabels,omitempty"`
	// Classes of nodes with the same labels and taints, cordoned and not-ready nodes included, with the taints that say so. There are
	// at most 50, with at most 256 free vectors altogether and 128 KiB of labels and taints; nodes that this leaves no room for are not told.
	// +optional
	// +listType=atomic
	Classes []NodeClass `json:"classes,omitempty"`
}

// NodeClass is a set of nodes that scheduling can only tell apart by what is free on them.
type NodeClass struct {
	// Labels of each of the nodes, beside the common ones and the omitted ones.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of each of the nodes that keep pods away: NoSchedule and NoExecute. A cordoned node has the taint
	// node.kubernetes.io/unschedulable:NoSchedule.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Nodes counts them.
	Nodes int32 `json:"nodes"`
	// Allocatable is, for each resource by itself, the most that one of the nodes has: a pod that requests more will never fit.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Free is what is free on the nodes, at least: where there are too many different amounts, nodes that are nearly as free as one another are
	// told as one, with the least of each amount. The nodes with the most of each resource are told exactly, as far as half of the class's
	// share of vectors goes. Nodes on which no pod fits may be left out.
	// +optional
	// +listType=atomic
	Free []FreeNodes `json:"free,omitempty"`
}

// FreeNodes are nodes with the same amounts free.
type FreeNodes struct {
	// Nodes counts them.
	Nodes int32 `json:"nodes"`
	// Resources that are free on each of them, pods included; a resource that is not named is not free.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// SourceUsage is what one source's delegates request.
type SourceUsage struct {
	// ClusterID is the source's, as in the label multicluster.admiralty.io/parent-cluster-id.
	ClusterID string `json:"clusterID"`
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// Latest are those of the source's delegates that were counted last, at most 256, by the first 8 characters of their proxies' UIDs, the
	// last one last: of what a source has placed, it knows by this what requested and free have seen.
	// +optional
	// +listType=atomic
	Latest []string `json:"latest,omitempty"`
}

// ClusterSummaryList is a list of ClusterSummaries.
//
// +kubebuilder:object:root=true
type ClusterSummaryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterSummary `json:"items"`
}
