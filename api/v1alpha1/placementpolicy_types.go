package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlacementPolicy configures how pods are placed in one target. All fields are optional, and can change at any time.
type PlacementPolicy struct {
	// Weight is the weight of the target among others. The default is 100. With the strategy spread, the share in use
	// of a target of weight 200 becomes twice the share of a target of weight 100. With pack, a target of weight 200 is
	// preferred as if it were twice as full.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Weight *int32 `json:"weight,omitempty"`
	// PlacementTimeout is how long the target may take to schedule a delegate before another target is tried. The
	// default is the manager's placement.timeout.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	PlacementTimeout *metav1.Duration `json:"placementTimeout,omitempty"`
	// QueueingTimeout is how long the target may hold a delegate back before another target is tried. A target holds a
	// delegate back by a scheduling gate (a queueing system), or while it preempts other pods. The default is 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	QueueingTimeout *metav1.Duration `json:"queueingTimeout,omitempty"`
	// FenceAfterSeconds is the default of the annotation multicluster.admiralty.io/fence-after-seconds of pods. The
	// target stops a delegate when it has not heard of this source for so long. Without the field, delegates run on. It
	// counts for pods that are placed from now on. The target must have a Lease for this source.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	FenceAfterSeconds *int32 `json:"fenceAfterSeconds,omitempty"`
	// KeepLabels gives delegates the labels of their pods under their own keys, too, and not only under the prefix
	// multicluster.admiralty.io/. The default is the manager's placement.keepLabels. It counts for pods that are placed
	// from now on. Services and other objects of the target that select these labels select the delegates as well.
	// +optional
	KeepLabels *bool `json:"keepLabels,omitempty"`
	// ScaleUp means that the target can add nodes for a pod that fits nowhere now.
	// +optional
	ScaleUp *ScaleUp `json:"scaleUp,omitempty"`
}

// ScaleUp configures how a target grows. A pod may fit in no target now, but on a node that this target could add. Its
// delegate is then left pending in this target, so that the target's autoscaler sees the delegate. Only one target at a
// time is made to grow for a pod.
type ScaleUp struct {
	// Timeout is how long a pod waits for the target to grow before the next target is tried. The default is 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') && duration(self) > duration('0s')",message="must be a duration of more than 0s, as in 90s, 10m or 1h30m"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// NodeClasses are the kinds of nodes that the target can add, in addition to nodes like the existing ones. With
	// them, a target can scale up from zero.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	NodeClasses []ScaleUpNodeClass `json:"nodeClasses,omitempty"`
}

// ScaleUpNodeClass is a kind of node that a target can add.
type ScaleUpNodeClass struct {
	// Labels are the labels of such a node.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the taints of such a node.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Taints []corev1.Taint `json:"taints,omitempty"`
	// Allocatable is the allocatable resources of such a node, without the requests of its DaemonSets. The node does
	// not have resources that are not named, except pods, whose default is 110.
	// +kubebuilder:validation:MinProperties=1
	Allocatable corev1.ResourceList `json:"allocatable"`
}
