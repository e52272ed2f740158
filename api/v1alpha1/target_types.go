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
// +kubebuilder:printcolumn:name="Awake",type=string,JSONPath=`.status.conditions[?(@.type=="Awake")].status`
// +kubebuilder:printcolumn:name="Responsive",type=string,JSONPath=`.status.conditions[?(@.type=="Responsive")].status`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="SecretUsable",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="SecretUsable")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
type ClusterTarget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterTargetSpec `json:"spec"`
	Status TargetStatus      `json:"status,omitempty"`
}

// ClusterTargetSpec names the cluster, by exactly one of self and kubeconfigSecret, and configures its use.
//
// +kubebuilder:validation:XValidation:rule="(has(self.self) && self.self) != has(self.kubeconfigSecret)",message="set exactly one of self: true and kubeconfigSecret"
// +kubebuilder:validation:XValidation:rule="!has(self.excludedLabelsRegexp) || 'x'.matches(self.excludedLabelsRegexp) in [true, false]",message="excludedLabelsRegexp is not a valid RE2 regular expression",fieldPath=".excludedLabelsRegexp"
type ClusterTargetSpec struct {
	// Self makes the source cluster a target of itself.
	// +optional
	Self bool `json:"self,omitempty"`
	// KubeconfigSecret names the Secret with the kubeconfig of the target cluster.
	// +optional
	KubeconfigSecret *ClusterKubeconfigSecret `json:"kubeconfigSecret,omitempty"`
	// ClusterID is the ID of the target cluster. `kubectl multicluster connect` writes it. If another cluster answers,
	// it is not used: the condition Connected is False, and no pod is touched. To accept that cluster, write its ID.
	// Pods that it does not have are then replaced. Without this field, status.clusterID counts. With self, it has no
	// effect.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	ClusterID string `json:"clusterID,omitempty"`
	// ExcludedLabelsRegexp is a regular expression (RE2). The virtual node does not get labels of the target's nodes
	// whose key=value it matches.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	ExcludedLabelsRegexp string `json:"excludedLabelsRegexp,omitempty"`
	// AllowedPodCIDRs are the ranges from which pods in the target may have addresses, such as 10.4.0.0/14. Proxies do
	// not show other addresses. If empty, all are allowed but those that the source cluster uses itself.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	// +kubebuilder:validation:items:Format=cidr
	AllowedPodCIDRs []string `json:"allowedPodCIDRs,omitempty"`

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
	// Key is the key of the kubeconfig in the Secret's data.
	// +optional
	// +kubebuilder:default=config
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key,omitempty"`
	// Context is the context of the kubeconfig. The default is its current context.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Context string `json:"context,omitempty"`
}

// TargetStatus is the status of a target as the source's manager sees it.
type TargetStatus struct {
	// Conditions has the conditions Connected, Ready, Awake and Responsive, and SecretUsable and Restricted if
	// something is wrong.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// NodeName is the name of the target's virtual node.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// KubernetesVersion is the version of the target's API server when last seen.
	// +optional
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// Epoch is a number that the source also keeps in the target, and raises from time to time. If the target has a
	// lower one, the target was set back.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`
	// EpochOf says where the epoch is kept: the target's cluster ID and the name of the Lease. The epoch means nothing
	// in another place.
	// +optional
	EpochOf string `json:"epochOf,omitempty"`
	// ClusterID is the ID of the cluster that was connected last. Without spec.clusterID, no other one is connected.
	// +optional
	ClusterID string `json:"clusterID,omitempty"`
	// Fences says that the target fenced delegates when it was connected last, and that nothing happened since but that
	// it stopped answering. Then the source may rely on it.
	// +optional
	Fences *bool `json:"fences,omitempty"`
	// Credentials says how long the source's credentials for the target are valid. It is absent if they do not expire.
	// +optional
	Credentials *TargetCredentials `json:"credentials,omitempty"`
}

// TargetCredentials are the credentials with which the source connects to a target.
type TargetCredentials struct {
	// Expires is when they expire.
	Expires metav1.Time `json:"expires"`
	// Renewed is when the manager renewed them. It is absent while those in the target's Secret are in use.
	// +optional
	Renewed *metav1.Time `json:"renewed,omitempty"`
	// Problem says why the manager does not renew them, and what to do. It is absent if there is no problem.
	// +optional
	Problem string `json:"problem,omitempty"`
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
// +kubebuilder:printcolumn:name="Awake",type=string,JSONPath=`.status.conditions[?(@.type=="Awake")].status`
// +kubebuilder:printcolumn:name="Responsive",type=string,JSONPath=`.status.conditions[?(@.type=="Responsive")].status`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.status.nodeName`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.kubernetesVersion`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="SecretUsable",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="SecretUsable")].status`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Connected")].message`
type Target struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   TargetSpec   `json:"spec"`
	Status TargetStatus `json:"status,omitempty"`
}

// TargetSpec names the cluster, by exactly one of self and kubeconfigSecret, and configures its use.
//
// +kubebuilder:validation:XValidation:rule="(has(self.self) && self.self) != has(self.kubeconfigSecret)",message="set exactly one of self: true and kubeconfigSecret"
// +kubebuilder:validation:XValidation:rule="!has(self.excludedLabelsRegexp) || 'x'.matches(self.excludedLabelsRegexp) in [true, false]",message="excludedLabelsRegexp is not a valid RE2 regular expression",fieldPath=".excludedLabelsRegexp"
type TargetSpec struct {
	// Self makes the source cluster a target of itself.
	// +optional
	Self bool `json:"self,omitempty"`
	// KubeconfigSecret names the Secret with the kubeconfig of the target cluster, in the Target's namespace.
	// +optional
	KubeconfigSecret *KubeconfigSecret `json:"kubeconfigSecret,omitempty"`
	// ClusterID is the ID of the target cluster. `kubectl multicluster connect` writes it. If another cluster answers,
	// it is not used: the condition Connected is False, and no pod is touched. To accept that cluster, write its ID.
	// Pods that it does not have are then replaced. Without this field, status.clusterID counts. With self, it has no
	// effect.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
	ClusterID string `json:"clusterID,omitempty"`
	// ExcludedLabelsRegexp is a regular expression (RE2). The virtual node does not get labels of the target's nodes
	// whose key=value it matches.
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
