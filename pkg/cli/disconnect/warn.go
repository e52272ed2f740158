package disconnect

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/cli/cluster"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/targetkind"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
)

// pageSize is the number of pods that are read at once.
const pageSize = 500

// warn says what follows for pods if the target is deleted now.
func (d *disconnection) warn(ctx context.Context, source *cluster.Cluster, target client.Object) {
	status := targetkind.Status(target)
	pods, err := countPods(ctx, source, status.NodeName)
	if err != nil { // The user may disconnect, and may not read pods, say.
		fmt.Fprintf(d.streams.ErrOut, "warning: nobody knows whether pods are on virtual node %s: %v\n",
			status.NodeName, err)
	}
	if text := d.warning(source, target, pods); text != "" {
		fmt.Fprintf(d.streams.ErrOut, "warning: %s\n", text)
	}
}

// warning returns what follows for pods if the target is deleted now, given how many are on its node. It is empty if
// none suffers. With access to the target, the command ends the delegates itself.
func (d *disconnection) warning(source *cluster.Cluster, target client.Object, pods int) string {
	status := targetkind.Status(target)
	connected := meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConnected)
	if !connected && d.options.targetContext == "" && (status.ClusterID != "" || pods > 0) {
		return fmt.Sprintf("%s is not connected. Pods on its virtual node: %d. If its cluster lives, "+
			"delegates run on there, beside the pods that replace them: those of StatefulSets, too, and fenced ones "+
			"until their target stops them. The manager tries for ten minutes to end them. Then the event %s says "+
			"which may run on: kubectl --context %s get events -A --field-selector reason=%[3]s",
			source.Describe(target), pods, v1alpha1.ReasonDelegatesMayRun, source.Context)
	}
	if pods > 0 {
		return fmt.Sprintf("pods on virtual node %s: %d. Their delegates end now, and nothing replaces the pods until "+
			"Kubernetes has removed them, within a minute or two. The next time, drain the node first",
			status.NodeName, pods)
	}
	return ""
}

// countPods counts the proxies on a node that are not finished.
func countPods(ctx context.Context, source *cluster.Cluster, nodeName string) (count int, err error) {
	if nodeName == "" {
		return 0, nil
	}
	onNode := fields.OneTermEqualSelector("spec.nodeName", nodeName)
	options := &client.ListOptions{Limit: pageSize, FieldSelector: onNode}
	for {
		pods := &corev1.PodList{}
		if err := source.Client.List(ctx, pods, options); err != nil {
			return count, fmt.Errorf("listing pods in context %q: %w", source.Context, err)
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; translate.IsProxy(pod) && !translate.Finished(pod.Status.Phase) {
				count++
			}
		}
		if options.Continue = pods.Continue; options.Continue == "" {
			return count, nil
		}
	}
}
