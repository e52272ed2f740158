package capacity

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// tied makes a pod belong to its node.
func tied(kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
	}
}

func TestAClassListsWhatItsNodesHaveWhenTheyAreEmpty(t *testing.T) {
	one := []*corev1.Node{node("a", "4", "8Gi")}
	for name, test := range map[string]struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
		want  []corev1.ResourceList
	}{
		"no pods, equal nodes":          {[]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "8Gi")}, nil, nil},
		"a smaller node":                {[]*corev1.Node{node("a", "4", "8Gi"), node("b", "4", "4Gi")}, nil, nil},
		"pods that do not belong there": {one, []*corev1.Pod{pod("p", "a", "1", "1Gi")}, nil},
		"pods of DaemonSets, and static ones": {
			one, []*corev1.Pod{
				pod("p", "a", "1", "1Gi", tied("DaemonSet")), pod("q", "a", "500m", "1Gi", tied("Node")),
				pod("r", "a", "1", "1Gi"),
			}, []corev1.ResourceList{list("2500m", "6Gi", "108")},
		},
		"nodes with more of one thing than another": {
			[]*corev1.Node{
				node("a", "4", "8Gi"), node("b", "2", "16Gi"), node("c", "2", "8Gi"), node("d", "1", "99Gi"),
			},
			[]*corev1.Pod{pod("p", "d", "0", "98Gi", tied("DaemonSet"))},
			[]corev1.ResourceList{list("4", "8Gi", "110"), list("2", "16Gi", "110")},
		},
		"more sizes than are listed": {
			[]*corev1.Node{
				node("a", "6", "1Gi"), node("b", "5", "2Gi"), node("c", "4", "3Gi"), node("d", "3", "4Gi"),
				node("e", "2", "5Gi"),
			}, nil,
			[]corev1.ResourceList{
				list("6", "1Gi", "110"), list("5", "2Gi", "110"), list("4", "3Gi", "110"), list("3", "5Gi", "110"),
			},
		},
		"a node that DaemonSets fill": {
			[]*corev1.Node{node("a", "4", "8Gi", func(n *corev1.Node) {
				delete(n.Status.Allocatable, corev1.ResourcePods)
			})},
			[]*corev1.Pod{pod("p", "a", "5", "8Gi", tied("DaemonSet"))}, []corev1.ResourceList{{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Summarize(test.nodes, test.pods, nil).Status.Classes[0].Empty
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoSizeIsLost(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 3 * maxCompared { // None includes another one.
		nodes = append(nodes, node(fmt.Sprint(i), fmt.Sprint(1+i), fmt.Sprintf("%dGi", 1000-i)))
	}
	empty := Summarize(nodes, nil, nil).Status.Classes[0].Empty
	if len(empty) != maxSizes {
		t.Fatalf("%d sizes are listed", len(empty))
	}
	for _, n := range nodes {
		held := slices.ContainsFunc(empty, func(size corev1.ResourceList) bool {
			has := n.Status.Allocatable
			return size.Cpu().Cmp(*has.Cpu()) >= 0 && size.Memory().Cmp(*has.Memory()) >= 0
		})
		if !held {
			t.Errorf("no size holds what node %s could: %v", n.Name, empty)
		}
	}
}

func TestAPodThatIsADaemonSetsNoLongerDoesNotBelongToItsNode(t *testing.T) {
	a := newAccount(nil)
	a.setNode(node("a", "4", "8Gi"))
	a.setPod(pod("p", "a", "1", "1Gi", tied("DaemonSet")))
	a.setPod(pod("p", "a", "1", "1Gi", tied("DaemonSet"))) // Nothing changes.
	expect := func(what string, want ...corev1.ResourceList) {
		t.Helper()
		if diff := cmp.Diff(want, a.summary().Status.Classes[0].Empty); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	expect("a DaemonSet", list("3", "7Gi", "109"))
	if !a.setPod(pod("p", "a", "1", "1Gi")) {
		t.Error("the pod was orphaned, and nothing changed")
	}
	expect("an orphan")
	a.setPod(pod("p", "a", "2", "1Gi", tied("DaemonSet")))
	expect("an adopted pod", list("2", "7Gi", "109"))
	a.removePod(types.NamespacedName{Namespace: "default", Name: "p"})
	expect("no pod")
}
