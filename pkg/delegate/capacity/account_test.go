package capacity

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestSummaryTotals(t *testing.T) {
	type objects struct {
		nodes []*corev1.Node
		pods  []*corev1.Pod
	}
	for name, test := range map[string]struct {
		objects objects
		want    *v1alpha1.ClusterSummary
	}{
		"an empty cluster": {want: &v1alpha1.ClusterSummary{}},
		"nodes are summed up and common labels kept": {
			objects{nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("zone", "z"), label("hostname", "a"), label("gpu", "yes")),
				node("b", "3", "1Gi", label("zone", "z"), label("hostname", "b")),
			}},
			summary(map[string]string{"zone": "z"}, 2, list("5", "5Gi", "220"), nil),
		},
		"pods take room on their own node": {
			objects{
				nodes: []*corev1.Node{node("a", "2", "4Gi"), node("b", "3", "1Gi")},
				pods:  []*corev1.Pod{pod("p", "b", "2500m", "1Gi"), pod("q", "a", "100m", "1Mi")},
			},
			summary(nil, 2, list("5", "5Gi", "220"), list("2600m", "1025Mi", "2")),
		},
		"pods are counted before their node appears": {
			objects{pods: []*corev1.Pod{pod("p", "a", "1", "1Gi")}, nodes: []*corev1.Node{node("a", "2", "4Gi")}},
			summary(nil, 1, list("2", "4Gi", "110"), list("1", "1Gi", "1")),
		},
		"cordoned, broken and virtual nodes do not count, nor do their pods": {
			objects{
				nodes: []*corev1.Node{
					node("a", "2", "4Gi"),
					node("cordoned", "2", "4Gi", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
					node("broken", "2", "4Gi", func(n *corev1.Node) {
						n.Status.Conditions[0].Status = corev1.ConditionUnknown
					}),
					node("virtual", "2", "4Gi", label(v1alpha1.LabelNodeProvider, v1alpha1.LabelNodeProviderValue)),
				},
				pods: []*corev1.Pod{
					pod("p", "cordoned", "1", "1Gi"), pod("q", "broken", "1", "1Gi"), pod("r", "virtual", "1", "1Gi"),
				},
			},
			summary(nil, 1, list("2", "4Gi", "110"), nil),
		},
		"finished and unscheduled pods do not count, terminating ones do": {
			objects{
				nodes: []*corev1.Node{node("a", "2", "4Gi")},
				pods: []*corev1.Pod{
					pod("p", "a", "1", "1Gi", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
					pod("q", "a", "1", "1Gi", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
					pod("r", "", "1", "1Gi"),
					pod("s", "a", "1", "1Gi", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
				},
			},
			summary(nil, 1, list("2", "4Gi", "110"), list("1", "1Gi", "1")),
		},
		"a node that has shrunk under its pods has nothing free": {
			objects{nodes: []*corev1.Node{node("a", "1", "1Gi")}, pods: []*corev1.Pod{pod("p", "a", "2", "1Gi")}},
			summary(nil, 1, list("1", "1Gi", "110"), list("2", "1Gi", "1")),
		},
		"delegates are shown by source": {
			objects{
				nodes: []*corev1.Node{node("a", "2", "4Gi"), node("b", "2", "4Gi")},
				pods: []*corev1.Pod{
					pod("p", "a", "1", "1Gi", of("s2")), pod("q", "b", "500m", "1Gi", of("s2")),
					pod("r", "b", "100m", "1Gi", of("s1")),
				},
			},
			func() *v1alpha1.ClusterSummary {
				s := summary(nil, 2, list("4", "8Gi", "220"), list("1600m", "3Gi", "3"))
				s.Status.Sources = []v1alpha1.SourceUsage{
					{ClusterID: "s1", Requested: list("100m", "1Gi", "1")},
					{ClusterID: "s2", Requested: list("1500m", "2Gi", "2")},
				}
				return s
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Summarize(test.objects.nodes, test.objects.pods, nil)
			got.Status.Classes, got.Status.CommonLabels, got.Status.OmittedLabels = nil, nil, nil
			for i := range got.Status.Sources {
				got.Status.Sources[i].Latest = nil
			}
			if diff := cmp.Diff(test.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheSourcesWithTheMostDelegatesAreListed(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 1000 { // Each costs a tenant one pod.
		pods = append(pods, pod(fmt.Sprintf("p%d", i), "a", "1m", "1Mi", delegate(fmt.Sprintf("a%d", i), "u")))
	}
	z := delegate("z", "u")
	pods = append(pods, pod("p", "a", "1m", "1Mi", z), pod("q", "a", "1m", "1Mi", z))
	got := Summarize([]*corev1.Node{node("a", "2", "4Gi")}, pods, nil).Status.Sources
	if len(got) != maxSources || got[len(got)-1].ClusterID != "z" {
		t.Errorf("%d sources are listed, the last one is %s; want %d and z",
			len(got), got[len(got)-1].ClusterID, maxSources)
	}
}

func TestOnlyVisibleChangesAreReported(t *testing.T) {
	a := newAccount(regexp.MustCompile("^secret="))
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	key := types.NamespacedName{Namespace: "default", Name: "p"}
	for _, step := range []struct {
		name string
		do   func() bool
		want bool
	}{
		{"a pod on an unknown node", func() bool { return a.setPod(pod("p", "a", "1", "1Gi")) }, false},
		{"its node appears", func() bool { return a.setNode(node("a", "2", "4Gi")) }, true},
		{"a heartbeat", func() bool { return a.setNode(node("a", "2", "4Gi")) }, false},
		{"the node grows", func() bool { return a.setNode(node("a", "3", "4Gi")) }, true},
		{"the pod becomes ready", func() bool { return a.setPod(pod("p", "a", "1", "1Gi")) }, false},
		{"the pod is resized", func() bool { return a.setPod(pod("p", "a", "2", "1Gi")) }, true},
		{
			"the pod is replaced by one of another source",
			func() bool { return a.setPod(pod("p", "a", "2", "1Gi", of("s"))) }, true,
		},
		{
			"the node gets a taint that repels nobody",
			func() bool { return a.setNode(node("a", "3", "4Gi", taint("t", corev1.TaintEffectPreferNoSchedule))) },
			false,
		},
		{
			"the node gets a taint",
			func() bool { return a.setNode(node("a", "3", "4Gi", taint("t", corev1.TaintEffectNoExecute))) }, true,
		},
		{"the node gets an excluded label", func() bool {
			return a.setNode(node("a", "3", "4Gi", taint("t", corev1.TaintEffectNoExecute), label("secret", "1")))
		}, false},
		{
			"the node gets another label", func() bool { return a.setNode(node("a", "3", "4Gi", label("zone", "z"))) },
			true,
		},
		{
			"the node is not ready",
			func() bool { return a.setNode(node("a", "3", "4Gi", label("zone", "z"), notReady)) }, true,
		},
		{"the node is cordoned", func() bool { return a.setNode(node("a", "3", "4Gi", cordon)) }, true},
		{"the pod goes from a cordoned node", func() bool { return a.removePod(key) }, true},
		{"the pod goes a second time", func() bool { return a.removePod(key) }, false},
		{"the node is uncordoned", func() bool { return a.setNode(node("a", "3", "4Gi")) }, true},
		{"a pod that waits for a node", func() bool { return a.setPod(pod("p", "", "1", "1Gi")) }, false},
		{"the pod is bound", func() bool { return a.setPod(pod("p", "a", "1", "1Gi")) }, true},
		{"the pod fails", func() bool {
			return a.setPod(pod("p", "a", "1", "1Gi", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }))
		}, true},
		{"the pod comes back", func() bool { return a.setPod(pod("p", "a", "1", "1Gi")) }, true},
		{"the node goes", func() bool { return a.removeNode("a") }, true},
		{"the node goes a second time", func() bool { return a.removeNode("a") }, false},
		{"the pod of the node goes", func() bool { return a.removePod(key) }, false},
		{
			"a delegate on an unknown node is counted",
			func() bool { return a.setPod(pod("p", "a", "1", "1Gi", delegate("s", "uid-0001-x"))) }, true,
		},
		{
			"a delegate of another proxy takes its place",
			func() bool { return a.setPod(pod("p", "a", "1", "1Gi", delegate("s", "uid-0002-x"))) }, true,
		},
		{
			"the delegate becomes ready",
			func() bool { return a.setPod(pod("p", "a", "1", "1Gi", delegate("s", "uid-0002-x"))) }, false,
		},
		{"the delegate goes", func() bool { return a.removePod(key) }, true},
		{"a virtual node appears", func() bool { return a.setNode(node("v", "1", "1Gi", virtual)) }, false},
		{"a virtual node grows", func() bool { return a.setNode(node("v", "2", "1Gi", virtual)) }, false},
		{"a virtual node goes", func() bool { return a.removeNode("v") }, false},
	} {
		if got := step.do(); got != step.want {
			t.Errorf("%s: reported %v, want %v", step.name, got, step.want)
		}
	}
	if len(a.nodes) != 0 || len(a.pods) != 0 || len(a.shapes) != 0 || len(a.delegates) != 0 {
		t.Errorf("%d nodes, %d pods, %d shapes and delegates of %d sources are left behind", len(a.nodes), len(a.pods),
			len(a.shapes), len(a.delegates))
	}
}

func TestTheCommonLabelsAreThoseOfTheNodesThatAreLeft(t *testing.T) {
	inZone := func(name, zone string, changes ...func(*corev1.Node)) *corev1.Node {
		return node(name, "2", "4Gi", append(changes, label("os", "linux"), label("zone", zone))...)
	}
	inBoth, inOne := map[string]string{"os": "linux"}, map[string]string{"os": "linux", "zone": "a"}
	for name, test := range map[string]struct {
		before  []*corev1.Node
		happens func(a *account)
		want    map[string]string
	}{
		"the node of another zone goes": {
			[]*corev1.Node{inZone("1", "a"), inZone("2", "b")}, func(a *account) { a.removeNode("2") }, inOne,
		},
		"the node of another zone is cordoned": {
			[]*corev1.Node{inZone("1", "a"), inZone("2", "b")},
			func(a *account) { a.setNode(inZone("2", "b", cordoned)) }, inOne,
		},
		"a node of another zone comes": {
			[]*corev1.Node{inZone("1", "a")}, func(a *account) { a.setNode(inZone("2", "b")) }, inBoth,
		},
		"a node changes its zone": {
			[]*corev1.Node{inZone("1", "a"), inZone("2", "a")},
			func(a *account) { a.setNode(inZone("2", "b")) }, inBoth,
		},
		"the last node goes": {
			[]*corev1.Node{inZone("1", "a")}, func(a *account) { a.removeNode("1") }, map[string]string{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(nil)
			for _, n := range test.before {
				a.setNode(n)
			}
			a.summary() // The labels are computed, and kept.
			test.happens(a)
			if diff := cmp.Diff(test.want, a.summary().Labels, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("common labels (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAccountDoesNotDrift checks that after any events, with summaries in between, the account equals a new account of
// the final objects.
func TestOnlyFeaturesThatAllNodesDeclareArePublished(t *testing.T) {
	declaring := func(features ...string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.DeclaredFeatures = features }
	}
	a := newAccount(nil)
	for _, step := range []struct {
		node *corev1.Node
		want []string
	}{
		{node("a", "2", "4Gi", declaring("A", "B", "C")), []string{"A", "B", "C"}},
		{node("b", "2", "4Gi", declaring("A", "C")), []string{"A", "C"}},
		{
			node("virtual", "2", "4Gi", label(v1alpha1.LabelNodeProvider, v1alpha1.LabelNodeProviderValue)),
			[]string{"A", "C"},
		},
		{node("b", "2", "4Gi", declaring("C")), []string{"C"}},
	} {
		a.setNode(step.node)
		if got := a.summary().Status.DeclaredFeatures; !slices.Equal(got, step.want) {
			t.Errorf("node %s: %v, want %v", step.node.Name, got, step.want)
		}
	}
}

func TestAccountDoesNotDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	live, nodes, pods := newAccount(nil), map[string]*corev1.Node{}, map[string]*corev1.Pod{}
	for range 20_000 {
		i := random.IntN(400)
		switch name := fmt.Sprint(i); {
		case i < 80 && random.IntN(4) == 0:
			delete(nodes, name)
			live.removeNode(name)
		case i < 80:
			nodes[name] = node(name, fmt.Sprint(1+random.IntN(9)), "8Gi", func(n *corev1.Node) {
				n.Spec.Unschedulable = random.IntN(3) == 0
				n.Labels["zone"], n.Labels["rack"] = fmt.Sprint(random.IntN(3)), fmt.Sprint(random.IntN(40))
				n.Labels["all"] = "same"
				if random.IntN(2) == 0 {
					name := corev1.ResourceName(fmt.Sprint("example.com/", random.IntN(5)))
					n.Status.Allocatable[name] = resource.MustParse("3")
				}
			})
			live.setNode(nodes[name])
		case random.IntN(3) == 0:
			delete(pods, name)
			live.removePod(types.NamespacedName{Namespace: "default", Name: name})
		default:
			nodeName, cpu := fmt.Sprint(random.IntN(100)), fmt.Sprintf("%dm", random.IntN(500))
			pods[name] = pod(name, nodeName, cpu, "1Gi", func(p *corev1.Pod) {
				delegate([]string{"", "s1", "s2"}[random.IntN(3)], fmt.Sprint(random.IntN(10)))(p)
				if random.IntN(3) == 0 { // Of these resources, no node has the last two.
					requesting(fmt.Sprint("example.com/", random.IntN(7)))(p)
				}
				p.Status.Phase = []corev1.PodPhase{
					corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded,
				}[random.IntN(3)]
			})
			live.setPod(pods[name])
		}
		if random.IntN(50) == 0 {
			live.summary()
		}
	}
	live.orderDelegates()
	want := Summarize(slices.Collect(maps.Values(nodes)), slices.Collect(maps.Values(pods)), nil)
	if diff := cmp.Diff(want, live.summary()); diff != "" {
		t.Errorf("(-fresh +live):\n%s", diff)
	}
}

func node(name, cpu, memory string, changes ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}},
		Status: corev1.NodeStatus{
			Capacity: list(cpu, memory, "110"), Allocatable: list(cpu, memory, "110"),
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, change := range changes {
		change(node)
	}
	return node
}

func pod(name, node, cpu, memory string, changes ...func(*corev1.Pod)) *corev1.Pod {
	requested := list(cpu, memory, "0")
	delete(requested, corev1.ResourcePods)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requested}}},
		},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func of(source string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[v1alpha1.LabelParentClusterID] = source }
}

// delegate makes the pod the delegate of this source and of the proxy with this UID.
func delegate(source, proxy string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels[v1alpha1.LabelParentClusterID], p.Labels[v1alpha1.LabelParentUID] = source, proxy
	}
}

func taint(key string, effect corev1.TaintEffect) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
}

func notReady(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

func virtual(n *corev1.Node) { n.Labels[v1alpha1.LabelNodeProvider] = v1alpha1.LabelNodeProviderValue }

func list(cpu, memory, pods string) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse(memory),
		corev1.ResourcePods:   resource.MustParse(pods),
	}
}

// summary returns a summary whose capacity is all allocatable.
func summary(
	labels map[string]string, nodes int32, allocatable, requested corev1.ResourceList,
) *v1alpha1.ClusterSummary {
	if labels == nil {
		labels = map[string]string{}
	}
	return &v1alpha1.ClusterSummary{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Capacity: allocatable, Allocatable: allocatable,
		Status: v1alpha1.ClusterSummaryStatus{Nodes: nodes, Requested: requested},
	}
}
