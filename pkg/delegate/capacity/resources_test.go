package capacity

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// TestPodsInventNoResources has pods on nodes that do not exist, as every tenant may create them, and a virtual node,
// which shows resources that another cluster told of.
func TestPodsInventNoResources(t *testing.T) {
	a := newAccount(nil)
	a.setNode(node("a", "2", "4Gi"))
	a.setNode(node("admiralty-c2", "2", "4Gi", virtual, having("example.com/of-another-cluster")))
	before := a.summary()
	for i := range 1000 {
		a.setPod(pod(fmt.Sprint("p", i), "nowhere", "1", "1Gi", requesting(fmt.Sprint("example.com/", i))))
	}
	if names := a.resources.names; len(names) != 3 {
		t.Errorf("%d resources have a place, want 3: %v…", len(names), names[:4])
	}
	if diff := cmp.Diff(before, a.summary()); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestAResourceThatANodeGetsLaterIsCountedOnItsPods(t *testing.T) {
	const gpu = "example.com/gpu"
	a := newAccount(nil)
	pods := []*corev1.Pod{
		pod("p", "a", "1", "1Gi", requesting(gpu)), pod("q", "a", "1", "1Gi", of("s1"), requesting(gpu)),
	}
	a.setNode(node("a", "4", "4Gi"))
	for _, p := range pods {
		a.setPod(p)
	}
	expect := func(when string, pods ...*corev1.Pod) {
		t.Helper()
		want := Summarize([]*corev1.Node{node("a", "4", "4Gi", having(gpu))}, pods, nil)
		if diff := cmp.Diff(want, a.summary(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-fresh +live):\n%s", when, diff)
		}
	}
	a.setNode(node("a", "4", "4Gi", having(gpu)))
	expect("with both pods", pods...)
	requested := a.summary().Status.Requested
	if got := requested.Name(gpu, resource.DecimalSI); got.Value() != 2 {
		t.Errorf("%s are requested, want 2", got)
	}
	a.setPod(pods[0].DeepCopy())
	expect("when a pod is seen again", pods...)
	a.removePod(types.NamespacedName{Namespace: "default", Name: "q"})
	expect("when one of them is gone", pods[0])
}

func requesting(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(name)] = resource.MustParse("1")
	}
}

func having(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse("3") }
}
