package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementPolicy says how pods are placed in one target. All of it may be left out, and changed at any time.
type PlacementPolicy struct {
	// Weight of the target among others, 100 by default. With the strategy spread, a target of weight 200 is filled to twice the share of
	// what is there that a target of weight 100 is filled to; with pack, it is preferred as if it were twice as full.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight *int32 `json:"weight,omitempty"`
	// PlacementTimeout is how long the target may take to schedule a delegate before another target is tried; by default, the
	// manager's placement.timeout.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	PlacementTimeout *metav1.Duration `json:"placementTimeout,omitempty"`
	// QueueingTimeout is how long the target may hold a delegate back for a reason of its own before another target is tried: by a
	// scheduling gate (a queueing system), or while it preempts other pods for it. 10m by default.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	QueueingTimeout *metav1.Duration `json:"queueingTimeout,omitempty"`
	// ScaleUp says that the target can add nodes, for a pod that fits nowhere now.
	// +optional
	ScaleUp *ScaleUp `json:"scaleUp,omitempty"`
}

// ScaleUp says how a target grows. A pod that fits in no target now, but would fit on a node that this one could add, is left pending
// in this one, for its autoscaler to see. Only one target at a time is asked to grow for a pod.
type ScaleUp struct {
	// Timeout is how long a pod waits for the target to grow before the next target is tried; 10m by default.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// NodeClasses are kinds of nodes that the target can add, beside nodes like those that it has. They make scaling up from zero possible.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	NodeClasses []ScaleUpNodeClass `json:"nodeClasses,omitempty"`
}

// ScaleUpNodeClass is a kind of node that a target can add.
type ScaleUpNodeClass struct {
	// Labels of such a node.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of such a node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Allocatable is what one such node has for pods, less what its DaemonSets take. A resource that is not named, it does not have; it
	// takes 110 pods unless pods is named.
	// +kubebuilder:validation:MinProperties=1
	Allocatable corev1.ResourceList `json:"allocatable"`
}
