package connect

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
)

// checkCluster reads the ID of the target's cluster. It returns an error if the (Cluster)Target of the name belongs to
// another cluster, and --accept is not given.
func (c *connection) checkCluster(ctx context.Context) error {
	summary := &v1alpha1.ClusterSummary{}
	err := c.target.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, summary)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("getting the ClusterSummary in context %q: %w", c.target.Context, err)
	}
	c.clusterID = summary.Status.ClusterID
	existing := c.desiredTarget()
	if err := c.source.GetIfExists(ctx, existing); err != nil {
		return err
	}
	spec := targetkind.Spec(existing)
	was := cmp.Or(spec.ClusterID, targetkind.Status(existing).ClusterID)
	if c.options.accept || spec.Self || was == "" || c.clusterID == "" || was == c.clusterID {
		return nil
	}
	return fmt.Errorf("%s is the cluster %s, and context %q is another one, %s: choose another NAME or context; "+
		"or, if the new cluster shall take over, add --accept, and pods that it does not have are replaced",
		c.source.Describe(existing), was, c.target.Context, c.clusterID)
}

// pin writes the ID of the target's cluster into the (Cluster)Target. It is a patch of its own, because an older source
// drops the unknown field of a patch, but refuses to apply it.
func (c *connection) pin(ctx context.Context, target client.Object) error {
	if c.clusterID == "" {
		return nil
	}
	patch := fmt.Appendf(nil, `{"spec":{"clusterID":%q}}`, c.clusterID)
	err := c.source.Client.Patch(
		ctx,
		target,
		client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(cluster.FieldOwner),
	)
	if err != nil {
		return fmt.Errorf("setting spec.clusterID of %s: %w", c.source.Describe(target), err)
	}
	return nil
}
