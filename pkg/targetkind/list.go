package targetkind

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// List returns all ClusterTargets, and the Targets of a namespace, or of all namespaces if it is empty. It returns
// nothing unless it could list both.
func List(
	ctx context.Context, reader client.Reader, namespace string, options ...client.ListOption,
) ([]client.Object, error) {
	clusterTargets, targets := &v1alpha1.ClusterTargetList{}, &v1alpha1.TargetList{}
	if err := reader.List(ctx, clusterTargets, options...); err != nil {
		return nil, fmt.Errorf("listing ClusterTargets: %w", err)
	}
	within := []client.ListOption{client.InNamespace(namespace)} // A cache has no ClusterTargets in a namespace.
	if err := reader.List(ctx, targets, slices.Concat(options, within)...); err != nil {
		return nil, fmt.Errorf("listing Targets: %w", err)
	}
	all := make([]client.Object, 0, len(clusterTargets.Items)+len(targets.Items))
	for i := range clusterTargets.Items {
		all = append(all, &clusterTargets.Items[i])
	}
	for i := range targets.Items {
		all = append(all, &targets.Items[i])
	}
	return all, nil
}
