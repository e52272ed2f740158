package v1alpha1

// DelegateRules limits the delegates of a source, whatever the labels of their namespace say. They apply to each
// delegate when it is created, and not to delegates that exist already.
//
// +kubebuilder:validation:MinProperties=1
type DelegateRules struct {
	// ServiceAccountNames are the service accounts that delegates may use. A pod that names none uses "default". If
	// this list is absent, delegates may use every service account of their namespace.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ServiceAccountNames []string `json:"serviceAccountNames,omitempty"`
	// PodSecurity is the Pod Security Standard that delegates must meet. If it is absent, only the labels of the
	// namespace count.
	// +optional
	PodSecurity *PodSecurityRule `json:"podSecurity,omitempty"`
}

// PodSecurityRule is a Pod Security Standard.
type PodSecurityRule struct {
	// Level is the level of the standard.
	Level PodSecurityLevel `json:"level"`
	// Version is the version of Kubernetes that defines the level, such as v1.34. The default is latest, which means
	// the newest version that the manager knows.
	// +optional
	// +kubebuilder:default=latest
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(latest|v1\.(0|[1-9][0-9]*))$`
	Version string `json:"version,omitempty"`
}

// PodSecurityLevel is a level of the Pod Security Standards.
//
// +kubebuilder:validation:Enum=privileged;baseline;restricted
type PodSecurityLevel string

// The levels of the Pod Security Standards, from the laxest to the strictest.
const (
	PodSecurityPrivileged PodSecurityLevel = "privileged"
	PodSecurityBaseline   PodSecurityLevel = "baseline"
	PodSecurityRestricted PodSecurityLevel = "restricted"
)
