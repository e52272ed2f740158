package grants

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

// confirm returns the rights that a source is to get. If the plan takes its last rights in a namespace, the API server
// is asked for PodChaperons: the cache may not show a new one yet. The source could never end it without rights.
func (k *Keeper) confirm(
	ctx context.Context, s ClusterSource, namespace string, planned rights, has []rights,
) (rights, error) {
	if planned != none || len(has) == 0 {
		return planned, nil
	}
	k.open.add(namespace, s.Name)
	selected := client.MatchingLabels{}
	if s.ClusterID != "" {
		selected[v1alpha1.LabelParentClusterID] = s.ClusterID
	}
	chaperons := &v1alpha1.PodChaperonList{}
	err := k.options.APIReader.List(ctx, chaperons, client.InNamespace(namespace), selected, client.Limit(1))
	if err != nil {
		return planned, fmt.Errorf("looking for PodChaperons in namespace %q: %w", namespace, err)
	}
	if len(chaperons.Items) > 0 {
		return leaving, nil
	}
	return none, nil
}
