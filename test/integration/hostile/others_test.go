package hostile

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// createRoom creates what the schedulers need to place pods in the honest target: its virtual nodes and its
// ClusterSummary. The hostile targets have no virtual nodes, because no test places pods there.
func createRoom(t env.T) {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourcePods: resource.MustParse("100000"),
	}
	for _, source := range []*env.Cluster{c1, control} {
		node := env.VirtualNode(translate.VirtualNodeName(honest))
		env.Create(t, source, node)
		env.ChangeStatus(t, source, node, func(node *corev1.Node) {
			node.Status.Allocatable = room
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		})
	}
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.Create(t, c2, summary)
	env.ChangeStatus(t, c2, summary, func(summary *v1alpha1.ClusterSummary) {
		summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: 1, Classes: []v1alpha1.NodeClass{{
			Nodes: 1, Allocatable: room, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room}},
		}}}
	})
}

// costsOthersNothing runs attacks at the same time. It fails the test if pods of the honest target are placed slower
// meanwhile, if this target is engaged anew, if memory is spent, or if anything in other namespaces of the source
// changes. Servers should go on misbehaving when the attacks return, because there may not be enough trips yet.
func costsOthersNothing(t *testing.T, attacks ...func()) {
	t.Helper()
	bystanders := env.Namespace(t, env.Enabled(), c1)
	waiting := env.Proxy(bystanders, "web")
	env.Create(t, c1, waiting, &corev1.ConfigMap{ObjectMeta: env.Meta(bystanders, "web")},
		&corev1.Secret{ObjectMeta: env.Meta(bystanders, "web")})
	env.WaitFor(t, c1, waiting, func(proxy *corev1.Pod) error {
		if translate.PodCondition(proxy.Status.Conditions, corev1.PodScheduled) == nil {
			return errors.New("no target has refused it yet")
		}
		return nil
	})
	if pods.without == nil {
		pods.without = pods.travel(t, func() bool { return true })
	}
	was, objects := engagedTarget(t, honest), objectsIn(t, bystanders)
	stop := watchHeap(t)
	var under atomic.Int64
	for _, attack := range attacks {
		under.Add(1)
		go func() {
			defer under.Add(-1) // Fatalf ends this goroutine, too.
			attack()
		}()
	}
	during := pods.travel(t, func() bool { return under.Load() == 0 })
	stop()
	if engagedTarget(t, honest) != was {
		t.Error("the honest target was engaged anew")
	}
	if diff := cmp.Diff(objects, objectsIn(t, bystanders)); diff != "" {
		t.Errorf("objects of others changed (-before +after):\n%s", diff)
	}
	during.expectAsFast(t, pods.without)
}

// objectsIn returns the versions of the objects of a namespace, and of default and kube-system.
func objectsIn(t *testing.T, namespace string) map[string]string {
	t.Helper()
	versions := map[string]string{}
	for kind, group := range map[string]string{
		"Pod": "", "ConfigMap": "", "Secret": "", "Service": "", "ServiceAccount": "", "PersistentVolumeClaim": "",
		"EndpointSlice": "discovery.k8s.io", "Ingress": "networking.k8s.io",
	} {
		for _, in := range []string{namespace, metav1.NamespaceDefault, metav1.NamespaceSystem} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind + "List"})
			env.Must(t, c1.Client.List(t.Context(), list, client.InNamespace(in)))
			for i := range list.Items {
				versions[kind+" "+in+"/"+list.Items[i].Name] = list.Items[i].ResourceVersion
			}
		}
	}
	return versions
}
