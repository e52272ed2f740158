package node

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

const us = "id-of-c1"

func resources(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func TestAllocatable(t *testing.T) {
	for name, test := range map[string]struct {
		has, requested, byUs, byOthers, want corev1.ResourceList
	}{
		"nothing is in use": {has: resources("cpu", "10", "pods", "110"), want: resources("cpu", "10", "pods", "110")},
		"resources that others use are not allocatable": {
			has:       resources("cpu", "10", "pods", "110"),
			requested: resources("cpu", "4", "pods", "10"),
			byOthers:  resources("cpu", "4"),
			want:      resources("cpu", "6", "pods", "100"),
		},
		"resources that our pods use are allocatable": {
			has:       resources("cpu", "10"),
			requested: resources("cpu", "4"),
			byUs:      resources("cpu", "3"),
			byOthers:  resources("cpu", "1"),
			want:      resources("cpu", "9"),
		},
		"allocatable resources are never negative": {
			has:       resources("memory", "1Gi"),
			requested: resources("memory", "2Gi"),
			want:      resources("memory", "0"),
		},
		"a resource that the target lacks is absent": {
			has:       resources("cpu", "1"),
			requested: resources("gpu", "1"),
			want:      resources("cpu", "1"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			summary := &v1alpha1.ClusterSummary{Allocatable: test.has, Status: v1alpha1.ClusterSummaryStatus{
				Requested: test.requested,
				Sources: []v1alpha1.SourceUsage{
					{ClusterID: "another", Requested: test.byOthers},
					{ClusterID: us, Requested: test.byUs},
				},
			}}
			before := summary.DeepCopy()
			if diff := cmp.Diff(test.want, allocatable(summary, us)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, summary); diff != "" {
				t.Errorf("the cached summary was changed: %s", diff)
			}
		})
	}
}

func connectedStatus(status metav1.ConditionStatus, reason string) v1alpha1.TargetStatus {
	return v1alpha1.TargetStatus{
		KubernetesVersion: "v1.37.1",
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionConnected, Status: status, Reason: reason, Message: "why"},
		},
	}
}

func engagedFacts() facts {
	return facts{
		key:    types.NamespacedName{Name: "c2"},
		status: connectedStatus(metav1.ConditionTrue, v1alpha1.ReasonConnected),
		summary: &v1alpha1.ClusterSummary{
			ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{"zone": "a", corev1.LabelArchStable: "arm64"}},
			Capacity:    resources("cpu", "2"),
			Allocatable: resources("cpu", "1"),
			Status:      v1alpha1.ClusterSummaryStatus{DeclaredFeatures: []string{"A", "B"}},
		},
		clusterID: us,
		address:   "10.0.0.1",
		port:      10250,
		now:       metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.Local)),
	}
}

// written is a desired node as the node controller leaves it in the API server, with a label of a user's.
func written(t *testing.T, want *corev1.Node) *corev1.Node {
	t.Helper()
	node := want.DeepCopy()
	last, err := json.Marshal(metav1.ObjectMeta{Labels: want.Labels})
	if err != nil {
		t.Fatal(err)
	}
	status, err := json.Marshal(want.Status)
	if err != nil {
		t.Fatal(err)
	}
	node.Annotations[annotationApplied], node.Annotations[annotationAppliedStatus] = string(last), string(status)
	node.Labels["users"] = "label"
	return node
}

func TestReadyFollowsConnected(t *testing.T) {
	for name, test := range map[string]struct {
		status v1alpha1.TargetStatus
		want   corev1.ConditionStatus
		reason string
	}{
		"a target that was never tried": {v1alpha1.TargetStatus{}, corev1.ConditionFalse, v1alpha1.ReasonConnecting},
		"a target that is being tried": {
			connectedStatus(metav1.ConditionUnknown, v1alpha1.ReasonConnecting), corev1.ConditionFalse,
			v1alpha1.ReasonConnecting,
		},
		"a target that a copy of this cluster holds": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonHeldByOther), corev1.ConditionUnknown,
			v1alpha1.ReasonHeldByOther,
		},
		"a target that was set back": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonTurnedBack), corev1.ConditionUnknown,
			v1alpha1.ReasonTurnedBack,
		},
		"a target that is connected": {
			connectedStatus(metav1.ConditionTrue, v1alpha1.ReasonConnected), corev1.ConditionTrue,
			v1alpha1.ReasonConnected,
		},
		"a target that is not connected": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable), corev1.ConditionFalse,
			v1alpha1.ReasonUnreachable,
		},
		"a target under whose name another cluster answers": {
			connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonOtherCluster), corev1.ConditionUnknown,
			v1alpha1.ReasonOtherCluster,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := engagedFacts()
			f.status = test.status
			got := nodeCondition(desiredNode(f), corev1.NodeReady)
			if got.Status != test.want || got.Reason != test.reason {
				t.Errorf("got %s, %s", got.Status, got.Reason)
			}
		})
	}
}

// A node that is not Ready loses its pods, and the controllers of proxies replace them, while their delegates run on.
func TestOnlyATargetThatMayBeDownLosesItsPods(t *testing.T) {
	for want, reasons := range map[corev1.ConditionStatus][]string{
		corev1.ConditionUnknown: {
			v1alpha1.ReasonUnauthorized, v1alpha1.ReasonForbidden, v1alpha1.ReasonSecretNotFound,
			v1alpha1.ReasonSecretKeyNotFound, v1alpha1.ReasonInvalidKubeconfig, v1alpha1.ReasonNoKey,
			v1alpha1.ReasonNoClusterID, v1alpha1.ReasonAddressesUnknown, v1alpha1.ReasonHeldByOther,
			v1alpha1.ReasonTurnedBack, v1alpha1.ReasonOtherCluster, v1alpha1.ReasonStorageFull,
			v1alpha1.ReasonNotInstalled,
		},
		corev1.ConditionFalse: {
			v1alpha1.ReasonUnreachable, v1alpha1.ReasonOverBudget, v1alpha1.ReasonAddressRefused,
		},
	} {
		for _, reason := range reasons {
			f := engagedFacts()
			f.status = connectedStatus(metav1.ConditionFalse, reason)
			if got := nodeCondition(desiredNode(f), corev1.NodeReady); got.Status != want {
				t.Errorf("%s: Ready is %s, want %s", reason, got.Status, want)
			}
		}
	}
}

func TestWhatIsNotKnownStaysAsItWas(t *testing.T) {
	f := engagedFacts()
	before := desiredNode(f)
	if features := before.Status.DeclaredFeatures; !slices.Equal(features, []string{"A", "B"}) {
		t.Errorf("the node declares %v, and all nodes of the target declare A and B", features)
	}
	f.existing = written(t, before)
	f.summary = nil
	f.now = metav1.NewTime(f.now.Add(time.Hour))
	after := desiredNode(f)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
	if _, ok := after.Labels["users"]; ok {
		t.Error("a user's label became ours, so that it would be removed one day")
	}
	f.status = connectedStatus(metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	if got := nodeCondition(desiredNode(f), corev1.NodeReady); got.LastTransitionTime != f.now {
		t.Errorf("the transition was at %s", got.LastTransitionTime)
	}
}

func TestConforms(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"the node as we wrote it": {func(*corev1.Node) {}, true},
		"a cordon":                {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"others' taints": {
			func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "k"}) }, true,
		},
		"others' resources": {func(n *corev1.Node) { n.Status.Capacity["gpu"] = resource.MustParse("1") }, true},
		"others' conditions": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "T"})
		}, true},
		"a heartbeat": {
			func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }, true,
		},
		"another path of metrics": {
			func(n *corev1.Node) { delete(n.Annotations, annotationMetricsPath) }, false,
		},
		"a node that was only created":       {func(n *corev1.Node) { n.Annotations = nil }, false},
		"without a label of ours":            {func(n *corev1.Node) { delete(n.Labels, "zone") }, false},
		"a label of ours with another value": {func(n *corev1.Node) { n.Labels["zone"] = "b" }, false},
		"another value of a condition of ours": {
			func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }, false,
		},
		"without a condition of ours": {func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[1:] }, false},
		"another capacity": {
			func(n *corev1.Node) { n.Status.Capacity["cpu"] = resource.MustParse("9") }, false,
		},
		"nothing allocatable": {func(n *corev1.Node) { n.Status.Allocatable = nil }, false},
		"another address":     {func(n *corev1.Node) { n.Status.Addresses[0].Address = "10.0.0.2" }, false},
		"another port": {
			func(n *corev1.Node) { n.Status.DaemonEndpoints.KubeletEndpoint.Port++ }, false,
		},
		"another version": {func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.36.0" }, false},
		"features whose write was lost": {func(n *corev1.Node) {
			n.Annotations[annotationAppliedStatus] = `{"declaredFeatures":["A"]}`
		}, false},
		"features that the API server does not know": {
			func(n *corev1.Node) { n.Status.DeclaredFeatures = nil }, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := desiredNode(engagedFacts())
			node := written(t, want)
			test.change(node)
			if got := conforms(node, want); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
	if conforms(nil, desiredNode(engagedFacts())) {
		t.Error("a node that is not there conforms")
	}
}

func TestReadiness(t *testing.T) {
	for name, test := range map[string]struct {
		connected metav1.ConditionStatus
		node      corev1.ConditionStatus
		status    metav1.ConditionStatus
		reason    string
	}{
		"connected, node Ready": {
			metav1.ConditionTrue, corev1.ConditionTrue, metav1.ConditionTrue, v1alpha1.ReasonNodeReady,
		},
		"connected, node not yet Ready": {
			metav1.ConditionTrue, corev1.ConditionFalse, metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady,
		},
		"connected, no node yet": {metav1.ConditionTrue, "", metav1.ConditionFalse, v1alpha1.ReasonNodeNotReady},
		"not connected any more": {
			metav1.ConditionFalse, corev1.ConditionTrue, metav1.ConditionFalse, v1alpha1.ReasonNotConnected,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := engagedFacts()
			f.status = connectedStatus(test.connected, "R")
			if test.node != "" {
				f.existing = &corev1.Node{
					Status: corev1.NodeStatus{
						Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: test.node}},
					},
				}
			}
			if got := targetCondition(f); got.Status != test.status || got.Reason != test.reason {
				t.Errorf("got %s, %s", got.Status, got.Reason)
			}
		})
	}
}
