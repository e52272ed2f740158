package source

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// sourceKind holds the differences between Source and ClusterSource.
type sourceKind[T client.Object] struct {
	name     string
	new      func() T
	identity func(T) identity
	status   func(T) *v1alpha1.SourceStatus
}

func sources() sourceKind[*v1alpha1.Source] {
	return sourceKind[*v1alpha1.Source]{
		name: "Source",
		new:  func() *v1alpha1.Source { return &v1alpha1.Source{} },
		identity: func(s *v1alpha1.Source) identity {
			i := identity{userName: s.Spec.UserName}
			if s.Spec.ServiceAccountName != "" {
				i.serviceAccount = types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.ServiceAccountName}
			}
			return i
		},
		status: func(s *v1alpha1.Source) *v1alpha1.SourceStatus { return &s.Status },
	}
}

func clusterSources() sourceKind[*v1alpha1.ClusterSource] {
	return sourceKind[*v1alpha1.ClusterSource]{
		name: "ClusterSource",
		new:  func() *v1alpha1.ClusterSource { return &v1alpha1.ClusterSource{} },
		identity: func(s *v1alpha1.ClusterSource) identity {
			i := identity{userName: s.Spec.UserName}
			if sa := s.Spec.ServiceAccount; sa != nil {
				i.serviceAccount = types.NamespacedName{Namespace: sa.Namespace, Name: sa.Name}
			}
			return i
		},
		status: func(s *v1alpha1.ClusterSource) *v1alpha1.SourceStatus { return &s.Status },
	}
}
