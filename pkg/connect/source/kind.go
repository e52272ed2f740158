package source

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/connect/source/grants"
)

// sourceKind holds the differences between Source and ClusterSource.
type sourceKind[T client.Object] struct {
	name      string
	new       func() T
	identity  func(T) grants.Identity
	clusterID func(T) string
	status    func(T) *v1alpha1.SourceStatus
	// clusterSource returns the object if it is a ClusterSource, and nil otherwise.
	clusterSource func(T) *v1alpha1.ClusterSource
}

func sources() sourceKind[*v1alpha1.Source] {
	return sourceKind[*v1alpha1.Source]{
		name:          "Source",
		new:           func() *v1alpha1.Source { return &v1alpha1.Source{} },
		identity:      grants.OfSource,
		clusterID:     func(s *v1alpha1.Source) string { return s.Spec.ClusterID },
		status:        func(s *v1alpha1.Source) *v1alpha1.SourceStatus { return &s.Status },
		clusterSource: func(*v1alpha1.Source) *v1alpha1.ClusterSource { return nil },
	}
}

func clusterSources() sourceKind[*v1alpha1.ClusterSource] {
	return sourceKind[*v1alpha1.ClusterSource]{
		name:          "ClusterSource",
		new:           func() *v1alpha1.ClusterSource { return &v1alpha1.ClusterSource{} },
		identity:      grants.OfClusterSource,
		clusterID:     func(s *v1alpha1.ClusterSource) string { return s.Spec.ClusterID },
		status:        func(s *v1alpha1.ClusterSource) *v1alpha1.SourceStatus { return &s.Status },
		clusterSource: func(s *v1alpha1.ClusterSource) *v1alpha1.ClusterSource { return s },
	}
}
