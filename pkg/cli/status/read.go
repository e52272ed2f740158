package status

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
)

// pageSize is the number of proxies that are read at once.
const pageSize = 500

// observation is everything that the command reads in a source cluster.
type observation struct {
	clusterTargets []v1alpha1.ClusterTarget
	targets        []v1alpha1.Target
	nodes          map[string]*corev1.Node
	use            map[string]*use
}

func observe(ctx context.Context, source *cluster.Cluster, namespace string) (*observation, error) {
	clusterTargets := &v1alpha1.ClusterTargetList{}
	if err := source.Client.List(ctx, clusterTargets); err != nil {
		return nil, fmt.Errorf("listing ClusterTargets in context %q: %w", source.Context, err)
	}
	targets := &v1alpha1.TargetList{}
	if err := source.Client.List(ctx, targets, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing Targets in context %q: %w", source.Context, err)
	}
	o := &observation{clusterTargets: clusterTargets.Items, targets: targets.Items, nodes: map[string]*corev1.Node{}}
	nodes := &corev1.NodeList{}
	virtual := client.MatchingLabels{v1alpha1.LabelNodeProvider: v1alpha1.LabelNodeProviderValue}
	if err := source.Client.List(ctx, nodes, virtual); err != nil {
		return nil, fmt.Errorf("listing virtual nodes in context %q: %w", source.Context, err)
	}
	for i := range nodes.Items {
		o.nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	var err error
	o.use, err = readUse(ctx, source)
	return o, err
}

// readUse adds up the requests of the proxies on each virtual node, page by page.
func readUse(ctx context.Context, source *cluster.Cluster) (map[string]*use, error) {
	all := map[string]*use{}
	proxies := fields.OneTermEqualSelector("spec.schedulerName", v1alpha1.SchedulerName)
	options := &client.ListOptions{Limit: pageSize, FieldSelector: proxies}
	for {
		pods := &corev1.PodList{}
		if err := source.Client.List(ctx, pods, options); err != nil {
			return nil, fmt.Errorf("listing elected pods in context %q: %w", source.Context, err)
		}
		for i := range pods.Items {
			count(all, &pods.Items[i])
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return all, nil
		}
	}
}
