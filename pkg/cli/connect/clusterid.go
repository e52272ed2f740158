package connect

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// setClusterID writes the source's cluster ID into the (Cluster)Source. It is a patch of its own, because an older
// target drops the unknown field of a patch, but refuses to apply it. If the ID cannot be found, it warns.
func (c *connection) setClusterID(ctx context.Context, source client.Object) error {
	id, err := c.sourceClusterID(ctx)
	if apierrors.IsForbidden(err) || err == nil && id == "" {
		reason := fmt.Sprintf("namespace %q has not exactly one configuration of a manager; is the chart in another "+
			"one? Set --secret-namespace", c.options.releaseNamespace)
		if err != nil {
			reason = err.Error()
		}
		fmt.Fprintf(c.streams.ErrOut, "warning: the cluster ID of context %q cannot be found (%s). While %s has no "+
			"spec.clusterID, the source may change and delete the PodChaperons of other sources\n",
			c.source.Context, reason, c.target.Describe(source))
		return nil
	}
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"clusterID":%q}}`, id)
	err = c.target.Client.Patch(
		ctx,
		source,
		client.RawPatch(types.MergePatchType, patch),
		client.FieldOwner(cluster.FieldOwner),
	)
	if err != nil {
		return fmt.Errorf("setting spec.clusterID of %s: %w", c.target.Describe(source), err)
	}
	return nil
}

// sourceClusterID returns the source's cluster ID, as its manager publishes it. The manager of a cluster that is no
// target publishes nothing. Its ID is the one in its configuration, by default the UID of the namespace kube-system.
func (c *connection) sourceClusterID(ctx context.Context) (string, error) {
	summary := &v1alpha1.ClusterSummary{}
	err := c.source.Client.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterSummaryName}, summary)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return "", fmt.Errorf("getting the ClusterSummary in context %q: %w", c.source.Context, err)
	}
	if summary.Status.ClusterID != "" {
		return summary.Status.ClusterID, nil
	}
	maps := &corev1.ConfigMapList{}
	if err := c.source.Client.List(ctx, maps, client.InNamespace(c.options.releaseNamespace)); err != nil {
		return "", fmt.Errorf("listing ConfigMaps in namespace %q of context %q: %w",
			c.options.releaseNamespace, c.source.Context, err)
	}
	var found []string
	for i := range maps.Items {
		if id, ok := configuredID(maps.Items[i].Data["config.yaml"]); ok {
			found = append(found, id)
		}
	}
	switch {
	case len(found) != 1:
		return "", nil
	case found[0] != "":
		return found[0], nil
	default:
		return string(c.link.SourceID), nil
	}
}

// configuredID returns the cluster ID in the configuration of a manager, which may be of another version. ok says
// whether the text is such a configuration.
func configuredID(text string) (id string, ok bool) {
	config := struct {
		metav1.TypeMeta `json:",inline"`
		ClusterID       string `json:"clusterID"`
	}{}
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		return "", false
	}
	return config.ClusterID, strings.HasPrefix(config.APIVersion, "config."+v1alpha1.GroupName+"/")
}
