package connect

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
	"github.com/multicluster-scheduler/multicluster-scheduler/pkg/translate"
	vknode "github.com/multicluster-scheduler/multicluster-scheduler/pkg/vk/node"
	"github.com/multicluster-scheduler/multicluster-scheduler/test/integration/env"
)

// leaseOf returns the lease of a virtual node, to be read.
func leaseOf(key types.NamespacedName) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: env.Meta(corev1.NamespaceNodeLease, translate.VirtualNodeName(key))}
}

// waitForLease waits until a node owns its lease.
func waitForLease(t *testing.T, key types.NamespacedName, node *corev1.Node) {
	t.Helper()
	env.WaitFor(t, c1, leaseOf(key), func(lease *coordinationv1.Lease) error {
		if *lease.Spec.LeaseDurationSeconds != 40 || lease.OwnerReferences[0].UID != node.UID {
			return fmt.Errorf("lease %+v, owned by %v", lease.Spec, lease.OwnerReferences)
		}
		return nil
	})
}

func TestTheVirtualNodeShowsTheTarget(t *testing.T) {
	key, _ := connect(t, c2Alice)
	node := waitForNode(t, key, func(node *corev1.Node) error {
		if node.Status.Capacity.Cpu().Value() != 12 || node.Status.Allocatable.Cpu().Value() != 7 {
			return fmt.Errorf("capacity %v, allocatable %v", node.Status.Capacity, node.Status.Allocatable)
		}
		return nil
	})
	for label, want := range map[string]string{"zone": "a", "hidden": "", v1alpha1.LabelClusterTargetName: key.Name} {
		env.ExpectEqual(t, "label "+label, want, node.Labels[label])
	}
	env.ExpectEqual(t, "path of the metrics", translate.ResourceMetricsPath(node.Name),
		node.Annotations["metrics.k8s.io/resource-metrics-path"])
	env.ExpectEqual(t, "name of the provider", "admiralty://"+key.Name, node.Spec.ProviderID)
	env.ExpectEqual(t, "declared features", []string{"FeatureA", "FeatureB"}, node.Status.DeclaredFeatures)
	taint := vknode.Taint()
	if len(node.Spec.Taints) == 0 || !node.Spec.Taints[0].MatchTaint(&taint) {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	env.ExpectEqual(t, "address of the kubelet API", address, node.Status.Addresses[0].Address)
	env.ExpectEqual(t, "port of the kubelet API", int32(port), node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if node.Status.NodeInfo.KubeletVersion == "" {
		t.Error("no version is shown")
	}
	waitForLease(t, key, node)
}

func TestAdditionsOfOthersToAVirtualNodeStay(t *testing.T) {
	key, _ := connect(t, c2Alice)
	node := waitForNode(t, key, func(node *corev1.Node) error {
		if node.Labels["zone"] != "a" {
			return errors.New("no zone")
		}
		return ready(corev1.ConditionTrue)(node)
	})
	env.Change(t, c1, node, func(node *corev1.Node) {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: "users", Effect: corev1.TaintEffectNoSchedule})
		node.Labels["users"] = "label"
		node.Annotations["users"] = "annotation"
	})

	changed := summary()
	changed.Labels = map[string]string{"region": "r"}
	changed.Allocatable[corev1.ResourceCPU] = resource.MustParse("20")
	publish(t, changed)
	defer publish(t, summary())
	node = waitForNode(t, key, func(node *corev1.Node) error {
		_, ok := node.Labels["zone"]
		if ok || node.Labels["region"] != "r" || node.Status.Allocatable.Cpu().Value() != 17 {
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
	key, _ := connect(t, c2Alice)
	old := waitForNode(t, key, ready(corev1.ConditionTrue))
	env.Delete(t, c1, old)
	env.WaitGone(t, c1, old)
	waitForLease(t, key, waitForNode(t, key, ready(corev1.ConditionTrue)))
	waitReady(t, key)
}

func TestAConditionThatOthersWroteIsCorrected(t *testing.T) {
	t.Parallel()
	key, _ := connect(t, c2Alice)
	node := waitForNode(t, key, ready(corev1.ConditionTrue))
	env.ChangeStatus(t, c1, node, func(node *corev1.Node) {
		for i := range node.Status.Conditions {
			// As the node lifecycle controller does when leases expire.
			node.Status.Conditions[i].Status = corev1.ConditionUnknown
		}
	})
	waitForNode(t, key, ready(corev1.ConditionTrue))
}

func TestANodeThatIsNotOursIsLeftAlone(t *testing.T) {
	namespace := env.Namespace(t, nil, c1)
	node := virtualNode(types.NamespacedName{Name: namespace})
	env.Create(t, c1, node)
	env.CreateForTest(t, c1, kubeconfigSecret(t, namespace, c2Alice))
	key := createClusterTarget(t, namespace)
	waitForCondition(t, key, v1alpha1.ConditionReady, v1alpha1.ReasonNodeConflict, "delete it")
	waitForCondition(t, key, v1alpha1.ConditionConnected, v1alpha1.ReasonConnected, "")
	if env.Get(t, c1, node).Labels[v1alpha1.LabelNodeProvider] != "" {
		t.Errorf("it was taken over: %v", node.Labels)
	}
	env.Delete(t, c1, node)
	waitReady(t, key)
}

func TestAVirtualNodeWithoutATargetIsDeleted(t *testing.T) {
	key := types.NamespacedName{Namespace: "gone", Name: "gone"}
	env.Create(t, c1, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:   translate.VirtualNodeName(key),
		Labels: vknode.Labels(key, nil, nil, nil),
	}})
	waitForNoNode(t, key)

	long := types.NamespacedName{Namespace: "gone", Name: strings.Repeat("g", 64)}
	env.Create(t, c1, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   translate.VirtualNodeName(long),
			Labels: vknode.Labels(long, nil, nil, nil), // They have the name shortened.
		},
		Spec: corev1.NodeSpec{ProviderID: "admiralty://" + long.String()},
	})
	waitForNoNode(t, long)
}
