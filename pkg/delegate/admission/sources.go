package admission

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// isNamed returns whether an administrator gave the cluster ID to the user: a ClusterSource, or a Source of the
// namespace, has both. One source cluster has several users if several of its targets lead to this cluster.
func (h handler) isNamed(ctx context.Context, user, clusterID, namespace string) (bool, error) {
	clusterSources, sources := &v1alpha1.ClusterSourceList{}, &v1alpha1.SourceList{}
	if err := h.sources.List(ctx, clusterSources, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing ClusterSources: %w", err)
	}
	if err := h.sources.List(ctx, sources, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing Sources of namespace %q: %w", namespace, err)
	}
	inCluster := func(s v1alpha1.ClusterSource) bool {
		account := s.Spec.ServiceAccount
		return s.Spec.ClusterID == clusterID && (s.Spec.UserName == user ||
			account != nil && serviceaccount.MatchesUsername(account.Namespace, account.Name, user))
	}
	inNamespace := func(s v1alpha1.Source) bool {
		account := s.Spec.ServiceAccountName
		return s.Spec.ClusterID == clusterID && (s.Spec.UserName == user ||
			account != "" && serviceaccount.MatchesUsername(s.Namespace, account, user))
	}
	return slices.ContainsFunc(clusterSources.Items, inCluster) ||
		slices.ContainsFunc(sources.Items, inNamespace), nil
}
