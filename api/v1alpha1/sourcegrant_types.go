package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SourceGrant publishes to a source cluster what this cluster, its target, lets it do. There is one for each user of
// Sources and ClusterSources. This cluster's manager writes it. Its name is translate.SourceGrantName of the user name,
// and its user may read it by this name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=srcgrant,categories=multicluster
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.userName`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.status.clusterID`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type SourceGrant struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SourceGrantSpec   `json:"spec"`
	Status SourceGrantStatus `json:"status,omitempty"`
}

// SourceGrantSpec says whose grant it is.
type SourceGrantSpec struct {
	// UserName is the user of the source in this cluster.
	UserName string `json:"userName"`
}

// SourceGrantStatus is the rights that the manager gave to the user. Rights that an administrator gave by hand are not
// listed.
type SourceGrantStatus struct {
	// Namespaces are the namespaces in which the source may create objects, sorted.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
	// Leaving are the namespaces that refuse new objects, and still have objects of the source, sorted.
	// +optional
	// +listType=set
	Leaving []string `json:"leaving,omitempty"`
	// Used are those of the namespaces above that have PodChaperons of the source, sorted. Without a ClusterID, any
	// PodChaperon may be the source's.
	// +optional
	// +listType=set
	Used []string `json:"used,omitempty"`
	// Copied are those of the namespaces above that have copies of the user's that the user may read, sorted:
	// PersistentVolumeClaims, Services, EndpointSlices or Ingresses.
	// +optional
	// +listType=set
	Copied []string `json:"copied,omitempty"`
	// Withheld is set if the manager knows all namespaces that have PodChaperons of the source. It knows them if a
	// ClusterSource gives the ClusterID.
	// +optional
	Withheld *WithheldNamespaces `json:"withheld,omitempty"`
	// ClusterID is the cluster ID that the source may use. It is empty if none is set.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Lease is the Lease that the source holds while it acts here. The namespace also has the Lease with which this
	// cluster's manager shows that it is awake: LeaseManager.
	// +optional
	Lease *LeaseReference `json:"lease,omitempty"`
}

// WithheldNamespaces are namespaces in which a source has PodChaperons, and no rights any more. In other namespaces
// without rights, it has no PodChaperons.
type WithheldNamespaces struct {
	// Namespaces are their names, sorted.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// LeaseReference names a Lease.
type LeaseReference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// SourceGrantList is a list of SourceGrants.
//
// +kubebuilder:object:root=true
type SourceGrantList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SourceGrant `json:"items"`
}
