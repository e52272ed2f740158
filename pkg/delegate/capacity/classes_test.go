package capacity

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multicluster-scheduler/multicluster-scheduler/api/v1alpha1"
)

func TestNodeClasses(t *testing.T) {
	cordon := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	gpus := func(count string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable["example.com/gpu"] = resource.MustParse(count) }
	}
	full := list("2", "4Gi", "110")
	for name, test := range map[string]struct {
		nodes    []*corev1.Node
		pods     []*corev1.Pod
		excluded string
		want     v1alpha1.ClusterSummaryStatus
	}{
		"a cluster without nodes has no classes": {},
		"nodes whose labels differ only in the hostname are one class": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("zone", "z"), label(corev1.LabelHostname, "a")),
				node("b", "2", "4Gi", label("zone", "z"), label(corev1.LabelHostname, "b")),
			},
			want: v1alpha1.ClusterSummaryStatus{
				CommonLabels: map[string]string{"zone": "z"}, OmittedLabels: []string{corev1.LabelHostname},
				Classes: []v1alpha1.NodeClass{
					{Nodes: 2, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}}},
				},
			},
		},
		"nodes with other labels are another class, and common labels are listed once": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("os", "linux"), label("zone", "y")),
				node("b", "2", "4Gi", label("os", "linux"), label("zone", "z")),
			},
			want: v1alpha1.ClusterSummaryStatus{
				CommonLabels: map[string]string{"os": "linux"},
				Classes: []v1alpha1.NodeClass{
					{
						Labels: map[string]string{"zone": "y"}, Nodes: 1, Allocatable: full,
						Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}},
					},
					{
						Labels: map[string]string{"zone": "z"}, Nodes: 1, Allocatable: full,
						Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}},
					},
				},
			},
		},
		"free amounts of a node are listed together, the emptiest nodes first": {
			nodes: []*corev1.Node{node("a", "2", "4Gi"), node("b", "2", "4Gi"), node("c", "4", "2Gi", gpus("2"))},
			pods: []*corev1.Pod{
				pod("p", "a", "500m", "1Gi"), pod("q", "b", "500m", "1Gi"),
				pod("r", "c", "1", "2Gi", func(p *corev1.Pod) {
					p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
				}),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Nodes: 3, Allocatable: with(list("4", "4Gi", "110"), "example.com/gpu", "2"),
				Empty: []corev1.ResourceList{
					with(list("4", "2Gi", "110"), "example.com/gpu", "2"), list("2", "4Gi", "110"),
				},
				Free: []v1alpha1.FreeNodes{
					{Nodes: 1, Resources: corev1.ResourceList{
						corev1.ResourceCPU: resource.MustParse("3"), corev1.ResourcePods: resource.MustParse("109"),
						"example.com/gpu": resource.MustParse("1"),
					}},
					{Nodes: 2, Resources: list("1500m", "3Gi", "109")},
				},
			}}},
		},
		"cordoned nodes have the taint of the cordon, even before it is added": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", cordoned),
				node("b", "2", "4Gi", cordoned, func(n *corev1.Node) {
					added := cordon
					added.TimeAdded = &metav1.Time{Time: time.Unix(1, 0)}
					n.Spec.Taints = []corev1.Taint{added}
				}),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{
				{
					Taints: []corev1.Taint{cordon}, Nodes: 2, Allocatable: full,
					Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}},
				},
			}},
		},
		"nodes that are not ready are listed with their taints": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", notReady, taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Taints: []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}},
				Nodes:  1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}},
			}}},
		},
		"taints that repel no pod are left out, and the others are sorted": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", taint("x", corev1.TaintEffectNoSchedule),
					taint("b", corev1.TaintEffectPreferNoSchedule), taint("a", corev1.TaintEffectNoSchedule)),
				node("b", "2", "4Gi", taint("a", corev1.TaintEffectNoSchedule),
					taint("x", corev1.TaintEffectNoSchedule)),
			},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Taints: []corev1.Taint{
					{Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "x", Effect: corev1.TaintEffectNoSchedule},
				},
				Nodes: 2, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 2, Resources: full}},
			}}},
		},
		"virtual nodes are in no class": {nodes: []*corev1.Node{node("v", "2", "4Gi", virtual)}},
		"nodes with too many pods are counted, and have nothing free": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", func(n *corev1.Node) {
					n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("1")
				}),
			},
			pods: []*corev1.Pod{pod("p", "a", "1", "1Gi")},
			want: v1alpha1.ClusterSummaryStatus{
				Classes: []v1alpha1.NodeClass{{Nodes: 1, Allocatable: list("2", "4Gi", "1")}},
			},
		},
		"a node that has shrunk under its pods has none of the resource free": {
			nodes: []*corev1.Node{node("a", "1", "4Gi")},
			pods:  []*corev1.Pod{pod("p", "a", "2", "1Gi")},
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{{
				Nodes: 1, Allocatable: list("1", "4Gi", "110"),
				Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: without(list("0", "3Gi", "109"), corev1.ResourceCPU)}},
			}}},
		},
		"excluded labels are not in the summary": {
			nodes: []*corev1.Node{
				node("a", "2", "4Gi", label("secret/a", "1"), label("rack", "hidden"),
					label(corev1.LabelHostname, "a")),
				node("b", "2", "4Gi", label("secret/b", "1"), label("rack", "shown"), label(corev1.LabelHostname, "b")),
			},
			excluded: "^secret/|^rack=hidden$|^kubernetes.io/hostname=",
			want: v1alpha1.ClusterSummaryStatus{Classes: []v1alpha1.NodeClass{
				{Nodes: 1, Allocatable: full, Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}}},
				{
					Labels: map[string]string{"rack": "shown"}, Nodes: 1, Allocatable: full,
					Free: []v1alpha1.FreeNodes{{Nodes: 1, Resources: full}},
				},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var excluded *regexp.Regexp
			if test.excluded != "" {
				excluded = regexp.MustCompile(test.excluded)
			}
			got := Summarize(test.nodes, test.pods, excluded)
			classes := v1alpha1.ClusterSummaryStatus{
				CommonLabels: got.Status.CommonLabels, OmittedLabels: got.Status.OmittedLabels,
				Classes: got.Status.Classes,
			}
			if diff := cmp.Diff(test.want, classes, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if data, _ := json.Marshal(got); test.excluded != "" &&
				regexp.MustCompile("secret|hidden|hostname").Match(data) {
				t.Errorf("an excluded label is in the summary: %s", data)
			}
		})
	}
}

func TestClassesAreBounded(t *testing.T) {
	long := strings.Repeat("x", 60)
	for name, test := range map[string]struct {
		change         func(i int, n *corev1.Node)
		classes, nodes int
		omitted        string // * for any
	}{
		"as many classes as the bound allows": {
			change:  func(i int, n *corev1.Node) { n.Labels["a"] = fmt.Sprint(i % 50) },
			classes: 50, nodes: 300,
		},
		"the key with the most values is left out": {
			change:  func(i int, n *corev1.Node) { n.Labels["a"], n.Labels["b"] = fmt.Sprint(i%10), fmt.Sprint(i%60) },
			classes: 10, nodes: 300, omitted: "b",
		},
		"only as many keys as necessary are left out": {
			change: func(i int, n *corev1.Node) {
				n.Labels["a"], n.Labels["b"], n.Labels["c"] = fmt.Sprint(i%3), fmt.Sprint(i/3%5), fmt.Sprint(i/15%7)
			},
			classes: 15, nodes: 300, omitted: "c",
		},
		"among keys with equally many values, the rarest is left out": {
			change: func(i int, n *corev1.Node) {
				for bit := range 5 {
					n.Labels[fmt.Sprint("bit", bit)] = fmt.Sprint(i >> bit & 1)
				}
				if i>>5&1 == 1 {
					n.Labels["few"] = ""
				}
			},
			classes: 32, nodes: 300, omitted: "few",
		},
		"each node has a key of its own": {
			change:  func(i int, n *corev1.Node) { n.Labels[fmt.Sprint("key", i)] = "" },
			classes: 50, nodes: 300, omitted: "*",
		},
		"among classes that differ only in taints, those of the most nodes are listed": {
			change:  func(i int, n *corev1.Node) { taint(fmt.Sprint(max(0, i-200)), corev1.TaintEffectNoSchedule)(n) },
			classes: 50, nodes: 250,
		},
		"labels whose total is too long": {
			change: func(i int, n *corev1.Node) {
				for key := range 100 {
					n.Labels[fmt.Sprint(long, key)] = fmt.Sprint(long, i%(2+key/4))
				}
			},
			classes: -1, nodes: 300, omitted: "*",
		},
		"taints whose total is too long": {
			change: func(i int, n *corev1.Node) {
				for key := range 200 {
					taint(fmt.Sprint(long, i%50, "-", key), corev1.TaintEffectNoSchedule)(n)
				}
			},
			classes: 8, nodes: 48,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var nodes []*corev1.Node
			for i := range 300 {
				n := node(fmt.Sprint(i), "2", "4Gi", label("all", "same"))
				test.change(i, n)
				nodes = append(nodes, n)
			}
			status := Summarize(nodes, nil, nil).Status
			if listed := nodesIn(status.Classes); listed != test.nodes || test.classes >= 0 &&
				len(status.Classes) != test.classes {
				t.Errorf("%d nodes in %d classes are listed, want %d in %d", listed, len(status.Classes), test.nodes,
					test.classes)
			}
			if omitted := strings.Join(status.OmittedLabels, " "); test.omitted != "*" && omitted != test.omitted {
				t.Errorf("omitted %q, want %q", omitted, test.omitted)
			}
			if status.CommonLabels["all"] != "same" {
				t.Errorf("common labels %v lack the label that all nodes have", status.CommonLabels)
			}
			if data, _ := json.Marshal(status); len(data) > 400<<10 {
				t.Errorf("the status has %d bytes", len(data))
			}
		})
	}
}

func nodesIn(classes []v1alpha1.NodeClass) int {
	sum := 0
	for i := range classes {
		sum += int(classes[i].Nodes)
	}
	return sum
}

func TestLatestDelegatesOfASource(t *testing.T) {
	at := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(seconds, 0),
			}}
		}
	}
	place := func(a *account, names ...string) {
		for _, name := range names {
			a.setPod(pod(name, "a", "1", "1Gi", delegate("s", name+"-0123456789")))
		}
	}
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("%04d", i)
	}
	shortened := func(names ...string) []string {
		var latest []string
		for _, name := range names {
			latest = append(latest, name[:4]+"-012")
		}
		return latest
	}
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: name} }
	for name, test := range map[string]struct {
		events func(*account)
		want   []string
	}{
		"delegates are listed in the order in which they were counted": {
			func(a *account) { place(a, "bbbb", "aaaa", "cccc") }, shortened("bbbb", "aaaa", "cccc"),
		},
		"the last ones of many delegates are listed": {
			func(a *account) { place(a, many...) }, shortened(many[44:]...),
		},
		"resized delegates keep their place": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.setPod(pod("aaaa", "a", "2", "1Gi", delegate("s", "aaaa-0123456789")))
		}, shortened("aaaa", "bbbb")},
		"deleted delegates are not listed": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.removePod(key("aaaa"))
		}, shortened("bbbb")},
		"finished delegates are not listed": {func(a *account) {
			place(a, "aaaa", "bbbb")
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("s", "bbbb-0123456789"),
				func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
		}, shortened("aaaa")},
		"older delegates take the place of deleted ones": {func(a *account) {
			place(a, many...)
			a.removePod(key("0299"))
		}, shortened(many[43:299]...)},
		"delegates without a node are not listed": {func(a *account) {
			a.setPod(pod("aaaa", "", "1", "1Gi", delegate("s", "aaaa-0123456789")))
			place(a, "bbbb")
		}, shortened("bbbb")},
		"delegates of another source are not listed": {func(a *account) {
			place(a, "aaaa")
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("other", "bbbb-0123456789")))
		}, shortened("aaaa")},
		"delegates on unknown and deleted nodes are listed": {func(a *account) {
			place(a, "aaaa")
			a.removeNode("a")
			a.setPod(pod("bbbb", "unknown", "1", "1Gi", delegate("s", "bbbb-0123456789")))
		}, shortened("aaaa", "bbbb")},
		"at the start, delegates are ordered by the time of scheduling, or else of creation": {func(a *account) {
			a.setPod(pod("aaaa", "a", "1", "1Gi", delegate("s", "aaaa-0123456789"), at(3)))
			a.setPod(pod("bbbb", "a", "1", "1Gi", delegate("s", "bbbb-0123456789"), at(1)))
			a.setPod(pod("cccc", "a", "1", "1Gi", delegate("s", "cccc-0123456789"),
				func(p *corev1.Pod) { p.CreationTimestamp = metav1.Unix(2, 0) }))
			a.orderDelegates()
			place(a, "dddd")
		}, shortened("bbbb", "cccc", "aaaa", "dddd")},
		"short UIDs are listed as they are": {
			func(a *account) { a.setPod(pod("aaaa", "a", "1", "1Gi", delegate("s", "u"))) }, []string{"u"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAccount(nil)
			a.setNode(node("a", "900", "900Gi"))
			test.events(a)
			var got []string
			for _, source := range a.summary().Status.Sources {
				if source.ClusterID == "s" {
					got = source.Latest
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("latest (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSharesOfVectorsAreFair(t *testing.T) {
	for name, test := range map[string]struct{ wanted, want []int }{
		"nobody wants anything":                   {[]int{0, 0}, []int{0, 0}},
		"all get what they want":                  {[]int{3, 4}, []int{3, 4}},
		"the others get what one does not want":   {[]int{90, 2, 90}, []int{9, 2, 9}},
		"a remainder goes to those who want more": {[]int{50, 60, 70}, []int{6, 7, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, shares(test.wanted, 20)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func with(l corev1.ResourceList, name corev1.ResourceName, amount string) corev1.ResourceList {
	l[name] = resource.MustParse(amount)
	return l
}

func without(l corev1.ResourceList, name corev1.ResourceName) corev1.ResourceList {
	delete(l, name)
	return l
}
