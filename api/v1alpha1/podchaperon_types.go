package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodChaperon requests a delegate in a target cluster. It has the name, the labels and the annotations of the delegate,
// owns the delegate, and reports its status.
//
// The spec is validated when the delegate is created, and not in the PodChaperon. So fields of newer Kubernetes
// versions are kept.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=chap,categories=multicluster
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.reason`
// +kubebuilder:printcolumn:name="Delegate",type=string,JSONPath=`.status.conditions[?(@.type=="multicluster.admiralty.io/Delegate")].reason`
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.metadata.annotations.multicluster\.admiralty\.io/parent-name`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels.multicluster\.admiralty\.io/parent-cluster-name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PodChaperon struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +structType=atomic
	Spec corev1.PodSpec `json:"spec"`
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +structType=atomic
	Status corev1.PodStatus `json:"status,omitempty"`

	// Unreadable says why the spec or the status could not be decoded, and is empty here. It is not part of the object.
	Unreadable string `json:"-"`
	// Unknown has the paths of the first fields of the spec that this version does not know. The API server keeps these
	// fields, and Spec lacks them. It is not part of the object, either.
	Unknown []string `json:"-"`
}

// PodChaperonList is a list of PodChaperons.
//
// +kubebuilder:object:root=true
type PodChaperonList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PodChaperon `json:"items"`
}
