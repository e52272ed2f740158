package hostile

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

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

// trips is how many pods are placed at least, for a percentile.
const trips = 30

// createRoom creates what the scheduler needs to place pods in the honest target: its virtual node and its
// ClusterSummary. The hostile targets have no virtual nodes, because no test places pods there.
func createRoom(t env.T) {
	t.Helper()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("100Gi"),
		corev1.ResourcePods: resource.MustParse("500"),
	}
	node := env.VirtualNode(translate.VirtualNodeName(honest))
	env.Create(t, c1, node)
	env.ChangeStatus(t, c1, node, func(node *corev1.Node) {
		node.Status.Allocatable = room
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	})
	summary := &v1alpha1.ClusterSummary{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterSummaryName}}
	env.Create(t, c2, summary)
	env.ChangeStatus(t, c2, summary, func(summary *v1alpha1.ClusterSummary) {
		summary.Status = v1alpha1.ClusterSummaryStatus{Nodes: 1, Classes: []v1alpha1.NodeClass{{
			Nodes: 1, Allocatable: room, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: room}},
		}}}
	})
}

// costsOthersNothing runs an attack, and fails the test if pods of the honest target are placed much slower meanwhile,
// if this target is engaged anew, if memory is spent, or if anything in other namespaces of the source changes.
func costsOthersNothing(t *testing.T, attack func()) {
	t.Helper()
	bystanders := env.Namespace(t, env.Enabled(), c1)
	env.Create(t, c1, env.Proxy(bystanders, "web"), &corev1.ConfigMap{ObjectMeta: env.Meta(bystanders, "web")},
		&corev1.Secret{ObjectMeta: env.Meta(bystanders, "web")})
	namespace := env.Namespace(t, env.Enabled(), c1, c2)
	without := placements(t, namespace, func() bool { return true })
	was, objects := engagedTarget(t, honest), objectsIn(t, bystanders)
	stop := watchHeap(t)
	var over atomic.Bool
	go func() {
		defer over.Store(true) // Fatalf ends this goroutine, too.
		attack()
	}()
	during := placements(t, namespace, over.Load)
	stop()
	if engagedTarget(t, honest) != was {
		t.Error("the honest target was engaged anew")
	}
	if diff := cmp.Diff(objects, objectsIn(t, bystanders)); diff != "" {
		t.Errorf("objects of others changed (-before +after):\n%s", diff)
	}
	t.Logf("without the attack: %s; during it: %s", without, during)
	if during > 10*without+time.Second {
		t.Errorf("pods of another target took %s instead of %s", during, without)
	}
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

// placements places pods in the honest target, one after the other: trips, and more until enough returns true. It
// returns the 99th percentile of the times that they take.
func placements(t *testing.T, namespace string, enough func() bool) time.Duration {
	t.Helper()
	var times []time.Duration
	for len(times) < trips || !enough() {
		proxy := env.Proxy(namespace, fmt.Sprintf("web-%d", time.Now().UnixNano()))
		proxy.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		began := time.Now()
		env.Must(t, c1.Client.Create(t.Context(), proxy))
		place(t, proxy)
		times = append(times, time.Since(began))
		env.Must(t, c1.Client.Delete(t.Context(), proxy, client.GracePeriodSeconds(0)))
		env.Must(t, client.IgnoreNotFound(c2.Client.Delete(t.Context(), &v1alpha1.PodChaperon{
			ObjectMeta: env.Meta(namespace, translate.DelegateName(proxy)),
		})))
	}
	slices.Sort(times)
	return times[(len(times)*99-1)/100]
}

// place waits until a proxy is bound and shows the status of its delegate. It plays the target's manager.
func place(t *testing.T, proxy *corev1.Pod) {
	t.Helper()
	message := string(proxy.UID)
	chaperon := &v1alpha1.PodChaperon{ObjectMeta: env.Meta(proxy.Namespace, translate.DelegateName(proxy))}
	env.WaitFor(t, c2, chaperon, func(*v1alpha1.PodChaperon) error { return nil })
	env.ChangeStatus(t, c2, chaperon, func(c *v1alpha1.PodChaperon) {
		c.Status.Phase, c.Status.Message = corev1.PodPending, message
		c.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	})
	env.WaitFor(t, c1, proxy, func(proxy *corev1.Pod) error {
		if proxy.Spec.NodeName == "" || proxy.Status.Message != message {
			return fmt.Errorf("it is on node %q, with the message %q", proxy.Spec.NodeName, proxy.Status.Message)
		}
		return nil
	})
}
