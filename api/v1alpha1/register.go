package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of this package.
const GroupName = "multicluster.admiralty.io"

// GroupVersion is the API group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme registers this package's kinds in the scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&Target{}, &TargetList{},
		&ClusterTarget{}, &ClusterTargetList{},
		&Source{}, &SourceList{},
		&ClusterSource{}, &ClusterSourceList{},
		&SourceGrant{}, &SourceGrantList{},
		&PodChaperon{}, &PodChaperonList{},
		&ClusterSummary{}, &ClusterSummaryList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
