package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSummary publishes the capacity of a cluster for the source clusters that may use it. A cluster has one, named
// singleton, which the cluster's own manager writes. Its labels are the labels that all nodes of the cluster share.
//
// Virtual nodes never count. Capacity, allocatable, requested and the number of nodes are sums over the schedulable
// nodes: Ready and not cordoned. The classes cover all nodes.
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
	// Allocatable is the sum of the nodes' allocatable resources, whether in use or not.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// +optional
	Status ClusterSummaryStatus `json:"status,omitempty"`
}

// ClusterSummaryStatus is the used and the free capacity.
type ClusterSummaryStatus struct {
	// Nodes is the number of schedulable nodes.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// ClusterID is the ID of this cluster: the UID of its namespace kube-system, unless configured. By this ID, a
	// source recognises that a target is the source itself.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// KubernetesVersion is the version of the API server, for example v1.37.1.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// DeclaredFeatures are the features that all nodes declare, virtual ones apart (status.declaredFeatures, since
	// Kubernetes 1.37). There are at most 512.
	// +optional
	// +listType=set
	DeclaredFeatures []string `json:"declaredFeatures,omitempty"`
	// DeviceResources are the extended resources that DeviceClasses provide by dynamic resource allocation: of each
	// DeviceClass its spec.extendedResourceName, and deviceclass.resource.kubernetes.io/ with its name. Pods can get
	// them on nodes that do not list them. Only the cluster's own scheduler knows how many devices are free. There are
	// at most 128, in order.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[^/]+/[^/]+$`
	DeviceResources []string `json:"deviceResources,omitempty"`
	// Requested is the sum of the requests of the pods on these nodes, as kube-scheduler counts them. The resource pods
	// is the number of these pods.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// Sources is the part of requested that belongs to the delegates of each source.
	// +optional
	// +listType=map
	// +listMapKey=clusterID
	Sources []SourceUsage `json:"sources,omitempty"`
	// CommonLabels are the labels that the nodes of all classes share.
	// +optional
	CommonLabels map[string]string `json:"commonLabels,omitempty"`
	// OmittedLabels are the keys of labels that some nodes have and that neither commonLabels nor classes list. They
	// are kubernetes.io/hostname, and keys that are omitted to bound the number of classes, up to 32 KiB of keys.
	// Labels that the cluster excludes are not listed anywhere.
	// +optional
	// +listType=set
	OmittedLabels []string `json:"omittedLabels,omitempty"`
	// Classes are sets of nodes with the same labels and taints. Cordoned and not-ready nodes are included, with the
	// taints that mark them. There are at most 50 classes, with at most 256 vectors of free resources and 128 KiB of
	// labels and taints in all. Nodes beyond these bounds are left out.
	// +optional
	// +listType=atomic
	Classes []NodeClass `json:"classes,omitempty"`
}

// NodeClass is a set of nodes that differ for scheduling only in their free resources.
type NodeClass struct {
	// Labels are the labels of each of the nodes, without common and omitted ones.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints of each of the nodes that repel pods: NoSchedule and NoExecute. A cordoned node has the
	// taint node.kubernetes.io/unschedulable:NoSchedule.
	// +optional
	// +listType=atomic
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Nodes is the number of nodes.
	Nodes int32 `json:"nodes"`
	// Allocatable is, for each resource by itself, the most that one of the nodes has. A pod that requests more never
	// fits.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// Empty is what one of the nodes has for pods that do not belong to it: its allocatable resources less the requests
	// of its static pods and of DaemonSets' pods. Nodes that have no more of anything than another one are left out.
	// If there are 4, some may have the most of each resource of several nodes. A pod that fits into no entry waits in
	// vain for room, and for another node like these. If there is no entry, allocatable is the only one.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	Empty []corev1.ResourceList `json:"empty,omitempty"`
	// Free is a lower bound of the free resources of the nodes. If there are too many different amounts, nodes with
	// nearly the same amounts share one entry, with the least of each amount. The nodes with the most of each resource
	// are exact, in up to half of the class's share of the entries. Nodes on which no pod fits may be left out.
	// +optional
	// +listType=atomic
	Free []FreeNodes `json:"free,omitempty"`
}

// FreeNodes are nodes with the same free resources.
type FreeNodes struct {
	// Nodes is the number of nodes.
	Nodes int32 `json:"nodes"`
	// Resources are the free resources of each of the nodes, including pods. A resource that is not named is not free.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
}

// SourceUsage is the usage by one source's delegates.
type SourceUsage struct {
	// ClusterID is the ID of the source, as in the label multicluster.admiralty.io/parent-cluster-id.
	ClusterID string `json:"clusterID"`
	// Requested is the sum of the requests of the source's delegates.
	// +optional
	Requested corev1.ResourceList `json:"requested,omitempty"`
	// Latest are the source's delegates that were counted last, at most 256, the latest at the end. Each is the first 8
	// characters of the UID of its proxy. By this list, a source knows which of its pods requested and free count
	// already.
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
