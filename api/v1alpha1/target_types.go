package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterTarget makes a cluster a target for the elected pods of every enabled namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ctg,categories=multicluster
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].reason`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
type ClusterTarget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterTargetSpec `json:"spec"`
	Status TargetStatus      `json:"status,omitempty"`
}

// ClusterTargetSpec says which cluster a ClusterTarget leads to: exactly one of self and kubeconfigSecret.
//
// +kubebuilder:validation:XValidation:rule="(has(self.self) && self.self) != has(self.kubeconfigSecret)",message="set exactly one of self: true and kubeconfigSecret"
// +kubebuilder:validation:XValidation:rule="!has(self.excludedLabelsRegexp) || 'x'.matches(self.excludedLabelsRegexp) in [true, false]",message="excludedLabelsRegexp is not a valid RE2 regular expression",fieldPath=".excludedLabelsRegexp"
type ClusterTargetSpec struct {
	// Self makes the source cluster a target of its own.
	// +optional
	Self bool `json:"self,omitempty"`
	// KubeconfigSecret names the Secret that holds the target's kubeconfig.
	// +optional
	KubeconfigSecret *ClusterKubeconfigSecret `json:"kubeconfigSecret,omitempty"`
	// ExcludedLabelsRegexp is an RE2 matched against key=value: matching labels of the target's nodes are left off the virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	ExcludedLabelsRegexp string `json:"excludedLabelsRegexp,omitempty"`

	PlacementPolicy `json:",inline"`
}

// ClusterKubeconfigSecret names a kubeconfig in a Secret of any namespace.
type ClusterKubeconfigSecret struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	KubeconfigSecret `json:",inline"`
}

// KubeconfigSecret names a kubeconfig in a Secret.
type KubeconfigSecret struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key of the Secret's data that holds the kubeconfig.
	// +optional
	// +kubebuilder:default=config
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Context of the kubeconfig; its current one by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Context string `json:"context,omitempty"`
}

// TargetStatus is what the source's manager knows of a target.
type TargetStatus struct {
	// Conditions: Connected and Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeName is the target's virtual node.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// KubernetesVersion of the target's API server, when last seen.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
}

// ClusterTargetList is a list of ClusterTargets.
//
// +kubebuilder:object:root=true
type ClusterTargetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterTarget `json:"items"`
}

// Target makes a cluster a target for the elected pods of its own namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=tg,categories=multicluster
// +kubebuilder:printcolumn:name="Connected",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].status`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Connected")].reason`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
type Target struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TargetSpec   `json:"spec"`
	Status TargetStatus `json:"status,omitempty"`
}

// TargetSpec says which cluster a Target leads to: exactly one of self and kubeconfigSecret.
//
// +kubebuilder:validation:XValidation:rule="(has(self.self) && self.self) != has(self.kubeconfigSecret)",message="set exactly one of self: true and kubeconfigSecret"
// +kubebuilder:validation:XValidation:rule="!has(self.excludedLabelsRegexp) || 'x'.matches(self.excludedLabelsRegexp) in [true, false]",message="excludedLabelsRegexp is not a valid RE2 regular expression",fieldPath=".excludedLabelsRegexp"
type TargetSpec struct {
	// Self makes the source cluster a target of its own.
	// +optional
	Self bool `json:"self,omitempty"`
	// KubeconfigSecret names the Secret, of the Target's namespace, that holds the target cluster's kubeconfig.
	// +optional
	KubeconfigSecret *KubeconfigSecret `json:"kubeconfigSecret,omitempty"`
	// ExcludedLabelsRegexp is an RE2 matched against key=value: matching labels of the target's nodes are left off the virtual node.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	ExcludedLabelsRegexp string `json:"excludedLabelsRegexp,omitempty"`

	PlacementPolicy `json:",inline"`
}

// TargetList is a list of Targets.
//
// +kubebuilder:object:root=true
type TargetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Target `json:"items"`
}
