package connect

import (
	"context"
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/apiserver"
)

func lease() *coordinationv1.Lease { return &coordinationv1.Lease{} }

func leaseOf(key types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: translate.VirtualNodeName(key)}
}

func TestTheVirtualNodeShowsTheTarget(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	node := expectNode(t, key, func(node *corev1.Node) error {
		if node.Status.Capacity.Cpu().Value() != 12 || node.Status.Allocatable.Cpu().Value() != 7 {
			return fmt.Errorf("capacity %v, allocatable %v", node.Status.Capacity, node.Status.Allocatable)
		}
		return nil
	})
	if node.Labels["zone"] != "a" || node.Labels["hidden"] != "" || node.Labels[v1alpha1.LabelClusterTargetName] != key.Name {
		t.Errorf("labels %v", node.Labels)
	}
	taint := translate.VirtualNodeTaint()
	if len(node.Spec.Taints) == 0 || !node.Spec.Taints[0].MatchTaint(&taint) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	if node.Status.Addresses[0].Address != address || node.Status.DaemonEndpoints.KubeletEndpoint.Port != port {
		t.Errorf("the kubelet API is said to be at %v:%v", node.Status.Addresses, node.Status.DaemonEndpoints)
	}
	if node.Status.NodeInfo.KubeletVersion == "" {
		t.Error("no version is shown")
	}
	apiserver.Eventually(t, func(ctx context.Context) error {
		lease := lease()
		if err := c1.Client.Get(ctx, leaseOf(key), lease); err != nil {
			return err
		}
		if *lease.Spec.LeaseDurationSeconds != 40 || lease.OwnerReferences[0].UID != node.UID {
			return fmt.Errorf("lease %+v, owned by %v", lease.Spec, lease.OwnerReferences)
		}
		return nil
	})
}

func TestWhatOthersPutOnAVirtualNodeStays(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	node := expectNode(t, key, func(node *corev1.Node) error {
		if node.Labels["zone"] != "a" {
			return errors.New("no zone")
		}
		return ready(corev1.ConditionTrue)(node)
	})
	before := node.DeepCopy()
	node.Spec.Unschedulable = true
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "users", Effect: corev1.TaintEffectNoSchedule})
	node.Labels["users"] = "label"
	node.Annotations["users"] = "annotation"
	if err := c1.Client.Patch(t.Context(), node, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}

	changed := summary()
	changed.Labels = map[string]string{"region": "r"}
	changed.Allocatable[corev1.ResourceCPU] = resource.MustParse("20")
	if err := publish(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := publish(context.WithoutCancel(t.Context()), summary()); err != nil {
			t.Error(err)
		}
	})
	node = expectNode(t, key, func(node *corev1.Node) error {
		if _, ok := node.Labels["zone"]; ok || node.Labels["region"] != "r" || node.Status.Allocatable.Cpu().Value() != 17 {
			return fmt.Errorf("labels %v, allocatable %v", node.Labels, node.Status.Allocatable)
		}
		return nil
	})
	taints := map[string]bool{}
	for _, taint := range node.Spec.Taints {
		taints[taint.Key] = true
	}
	if !node.Spec.Unschedulable || !taints["users"] || !taints[v1alpha1.LabelNodeProvider] {
		t.Errorf("the spec was overwritten: %+v", node.Spec)
	}
	if node.Labels["users"] != "label" || node.Annotations["users"] != "annotation" {
		t.Errorf("metadata was overwritten: %v, %v", node.Labels, node.Annotations)
	}
}

func TestADeletedVirtualNodeComesBack(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	old := expectNode(t, key, ready(corev1.ConditionTrue))
	if err := c1.Client.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	node := expectNode(t, key, func(node *corev1.Node) error {
		if node.UID == old.UID {
			return errors.New("the node was not deleted")
		}
		return ready(corev1.ConditionTrue)(node)
	})
	apiserver.Eventually(t, func(ctx context.Context) error {
		lease := lease()
		if err := c1.Client.Get(ctx, leaseOf(key), lease); err != nil {
			return err
		}
		if lease.OwnerReferences[0].UID != node.UID {
			return errors.New("the lease is still the old node's")
		}
		return nil
	})
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
}

func TestAConditionThatOthersWroteIsCorrected(t *testing.T) {
	key, _ := connectedTarget(t, c2Alice)
	node := expectNode(t, key, ready(corev1.ConditionTrue))
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Status = corev1.ConditionUnknown // As the node lifecycle controller does when leases expire.
	}
	if err := c1.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	expectNode(t, key, ready(corev1.ConditionTrue))
}

func TestANodeThatIsNotOursIsLeftAlone(t *testing.T) {
	namespace := c1.Namespace(t, nil)
	key := types.NamespacedName{Name: namespace}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: translate.VirtualNodeName(key)}}
	create(t, c1.Client, node)
	create(t, c1.Client, kubeconfigSecret(t, namespace, c2Alice))
	clusterTarget(t, namespace)
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeConflict, "delete it")
	expect(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	if now := expectNode(t, key, func(*corev1.Node) error { return nil }); now.Labels[v1alpha1.LabelNodeProvider] != "" {
		t.Errorf("it was taken over: %v", now.Labels)
	}
	if err := c1.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	expect(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeReady, "")
}

func TestAVirtualNodeWithoutATargetGoes(t *testing.T) {
	key := types.NamespacedName{Namespace: "gone", Name: "gone"}
	create(t, c1.Client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   translate.VirtualNodeName(key),
		Labels: translate.VirtualNodeLabels(key, nil, nil),
	}})
	apiserver.Eventually(t, func(ctx context.Context) error { return noNode(ctx, key) })
}
