package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterSource gives a source cluster the right to run pods in namespaces of this cluster, by a user name or a service
// account of this cluster.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=csrc,categories=multicluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ClusterSource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSourceSpec `json:"spec"`
	Status SourceStatus      `json:"status,omitempty"`
}

// ClusterSourceSpec is the identity of the source cluster in this cluster. Both userName and serviceAccount may be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.userName) && size(self.userName) > 0 || has(self.serviceAccount)",message="set userName or serviceAccount"
type ClusterSourceSpec struct {
	// UserName is a user that this cluster's API server authenticates, for example by client certificate or OpenID
	// Connect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	UserName string `json:"userName,omitempty"`
	// ServiceAccount is a service account. The manager creates it if it does not exist.
	// +optional
	ServiceAccount *ServiceAccountReference `json:"serviceAccount,omitempty"`
	// NamespaceSelector selects the namespaces that the source may use. Absent or empty, it selects all. Some
	// namespaces are left out unless they are named: those whose names begin with kube-, the namespace of the manager,
	// and those with the label multicluster.admiralty.io/sources=excluded. You name a namespace by
	// kubernetes.io/metadata.name in this selector, or by the label multicluster.admiralty.io/sources=allowed. A
	// namespace that is no longer selected refuses new objects. The source keeps its other rights there until its last
	// object is gone.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator == 'In' || e.operator == 'NotIn' || e.operator == 'Exists' || e.operator == 'DoesNotExist')",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, (e.operator == 'In' || e.operator == 'NotIn') == (has(e.values) && size(e.values) > 0))",message="In and NotIn need values, Exists and DoesNotExist must have none"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ClusterID is the ID of the source cluster. If it is set, the source may use this ID only.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	ClusterID string `json:"clusterID,omitempty"`
	// Delegates limits the delegates of this source. If it is absent, this cluster's own rules decide alone.
	// +optional
	Delegates *DelegateRules `json:"delegates,omitempty"`
}

// ServiceAccountReference names a service account.
type ServiceAccountReference struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
}

// SourceStatus is the status of a source, which this cluster's manager reports.
type SourceStatus struct {
	// Conditions has the condition Ready. A ClusterSource also has the condition Restricted.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ClusterSourceList is a list of ClusterSources.
//
// +kubebuilder:object:root=true
type ClusterSourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterSource `json:"items"`
}

// Source gives a source cluster the right to run pods in the Source's namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=src,categories=multicluster
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type Source struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   SourceSpec   `json:"spec"`
	Status SourceStatus `json:"status,omitempty"`
}

// SourceSpec is the identity of the source cluster in this cluster. Both userName and serviceAccountName may be set.
//
// +kubebuilder:validation:XValidation:rule="has(self.userName) && size(self.userName) > 0 || has(self.serviceAccountName) && size(self.serviceAccountName) > 0",message="set userName or serviceAccountName"
type SourceSpec struct {
	// UserName is a user that this cluster's API server authenticates, for example by client certificate or OpenID
	// Connect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	UserName string `json:"userName,omitempty"`
	// ServiceAccountName is a service account of the Source's namespace. The manager creates it if it does not exist.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// ClusterID is the ID of the source cluster. If it is set, the source may use this ID only.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	ClusterID string `json:"clusterID,omitempty"`
	// Delegates limits the delegates of this source. If it is absent, this cluster's own rules decide alone.
	// +optional
	Delegates *DelegateRules `json:"delegates,omitempty"`
}

// SourceList is a list of Sources.
//
// +kubebuilder:object:root=true
type SourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Source `json:"items"`
}
